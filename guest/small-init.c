// SPDX-License-Identifier: GPL-2.0
/*
 * The init of 'make foreign', for architectures without a Debian guest: takes
 * CPUs offline and online in every way there is, and says whether they went and
 * came. Built with the kernel's nolibc.
 */
#define CPUS "/sys/devices/system/cpu/"
#define ROUNDS 3

/* Without the newline; empty if there is no such file */
static void get(const char *path, char *text, int size)
{
	int fd = open(path, O_RDONLY), n = 0;

	if (fd >= 0) {
		n = read(fd, text, size - 1);
		close(fd);
	}
	text[n > 0 ? n : 0] = 0;
	if (n > 0 && text[n - 1] == '\n')
		text[n - 1] = 0;
}

static void end(const char *how)
{
	printf("lab: %s\n", how);
	sleep(1);
	reboot(LINUX_REBOOT_CMD_POWER_OFF);
	for (;;)
		sleep(1);
}

static void put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) != (int)strlen(text)) {
		printf("lab: %s > %s: error %d\n", text, path, errno);
		end("failed");
	}
	close(fd);
}

/* Some CPUs are to be offline, no matter which */
static void not_all_online(const char *all, const char *when)
{
	char got[64];

	get(CPUS "online", got, sizeof(got));
	printf("lab: %s: %s\n", when, got);
	if (!strcmp(got, all))
		end("failed");
}

/* One CPU after the other, up to @last */
static void put_each(int last, const char *text)
{
	char path[64];
	int cpu;

	for (cpu = 1; cpu <= last; cpu++) {
		snprintf(path, sizeof(path), CPUS "cpu%d/online", cpu);
		put(path, text);
	}
}

static void is_online(const char *want, const char *when)
{
	char got[64];

	get(CPUS "online", got, sizeof(got));
	printf("lab: %s: %s\n", when, got);
	if (strcmp(got, want)) {
		printf("lab: %s are online, not %s\n", got, want);
		end("failed");
	}
}

int main(void)
{
	char all[64], rest[64], text[512];
	int round, last;

	mkdir("/proc", 0755);
	mkdir("/sys", 0755);
	mount("proc", "/proc", "proc", 0, NULL);
	mount("sysfs", "/sys", "sysfs", 0, NULL);

	get(CPUS "present", all, sizeof(all));
	if (strncmp(all, "0-", 2)) {
		printf("lab: present are %s\n", all);
		end("failed");
	}
	last = atoi(all + 2);
	snprintf(rest, sizeof(rest), "1-%d", last);
	get("/proc/cmdline", text, sizeof(text));
	if (strstr(text, "maxcpus=2")) {
		/* Where bringup is parallel, primary threads come first */
		not_all_online(all, "booted");
		put(CPUS "hotplug/online", "all");
		is_online(all, "the rest");
	}
	is_online(all, "booted");

	for (round = 0; round < ROUNDS; round++) {
		put_each(last, "0");
		is_online("0", "one by one, offline");
		put_each(last, "1");
		is_online(all, "one by one, online");

		put(CPUS "hotplug/offline", rest);
		is_online("0", "a list, offline");
		put(CPUS "hotplug/online", "all");
		is_online(all, "all, online");

		get(CPUS "smt/control", text, sizeof(text));
		if (strcmp(text, "on"))
			continue;
		put(CPUS "smt/control", "off");
		not_all_online(all, "SMT off");
		put(CPUS "smt/control", "on");
		is_online(all, "SMT on");
	}
	end("passed");
	return 0;
}
