// SPDX-License-Identifier: GPL-2.0
/*
 * The init of 'make foreign', for architectures without a Debian guest: takes
 * CPUs offline and online in every way there is, and says whether they went and
 * came. Built with the kernel's nolibc.
 *
 * With kernel parameters it does more:
 *	lab.cpu0	CPU 0 goes as well, and the last one stays
 *	lab.late	a CPU comes later than it is waited for, and is told to stop
 *	lab.kexec	in the end kexec, RISC-V only, to code which powers off
 *	lab.count	only: how often one list calls what is expensive. On a kernel
 *			without lists, a write for each CPU
 */
#define CPUS "/sys/devices/system/cpu/"
#define TRACE "/sys/kernel/tracing/"
#define PARAM "/sys/module/cpuhp/parameters/"
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

/*
 * CPU 3 is isolated. Without cpusets nobody counts the bandwidth of its
 * servers anew when it has come back.
 */
static void isolated(const char *all)
{
	int round;

	for (round = 0; round < ROUNDS; round++) {
		put(CPUS "cpu3/online", "0");
		put(CPUS "cpu3/online", "1");
	}
	is_online(all, "an isolated one");
}

/* CPU 3 is given up, stops when it comes, and comes when it is asked again */
static void late(const char *all, const char *rest)
{
	int fd;

	put(CPUS "hotplug/offline", rest);
	put(PARAM "ap_delay_cpu", "3");
	put(PARAM "ap_delay_us", "11000000");
	fd = open(CPUS "cpu3/online", O_WRONLY);
	if (write(fd, "1", 1) == 1) {
		printf("lab: CPU 3 was waited for\n");
		end("failed");
	}
	close(fd);
	is_online("0", "CPU 3 is late");
	/* Whether it is dead is looked at each second */
	sleep(4);
	put(PARAM "ap_delay_us", "0");
	put(CPUS "cpu3/online", "1");
	is_online("0,3", "CPU 3 again");
	put(CPUS "hotplug/online", "all");
	is_online(all, "all, after a late one");
}

/* What is counted, in the order of the output */
static const char *const counted[] = {
	"synchronize_rcu_normal", "synchronize_rcu_expedited",
	"stop_machine_cpuslocked", "build_sched_domains",
};

#define COUNTED ((int)(sizeof(counted) / sizeof(counted[0])))

/* Of the function profiler of each CPU: lines of a name and how often */
static void count_calls(int last, int *calls)
{
	char path[64], text[4096], *at;
	int cpu, i;

	memset(calls, 0, COUNTED * sizeof(*calls));
	for (cpu = 0; cpu <= last; cpu++) {
		snprintf(path, sizeof(path), TRACE "trace_stat/function%d", cpu);
		get(path, text, sizeof(text));
		for (i = 0; i < COUNTED; i++) {
			at = strstr(text, counted[i]);
			if (!at)
				continue;
			for (at += strlen(counted[i]); *at == ' '; at++)
				;
			calls[i] += atoi(at);
		}
	}
}

static long long now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

/* One list: twice, as the profiler takes time */
static void count_list(int last, const char *cpus, bool up)
{
	const char *path = up ? CPUS "hotplug/online" : CPUS "hotplug/offline";
	bool lists = !access(path, W_OK);
	int calls[COUNTED], profile, i;
	long long us = 0;

	for (profile = 1; profile >= 0; profile--) {
		if (profile)
			put(TRACE "function_profile_enabled", "1");
		us = now_us();
		if (lists)
			put(path, cpus);
		else
			put_each(last, up ? "1" : "0");
		us = now_us() - us;
		if (profile) {
			put(TRACE "function_profile_enabled", "0");
			count_calls(last, calls);
		}
		/* And back, for the second time */
		if (profile && lists)
			put(up ? CPUS "hotplug/offline" : CPUS "hotplug/online", cpus);
		else if (profile)
			put_each(last, up ? "0" : "1");
	}
	printf("lab: count %s", up ? "online" : "offline");
	for (i = 0; i < COUNTED; i++)
		printf(" %s=%d", counted[i], calls[i]);
	printf(" us=%lld\n", us);
}

static void count(int last, const char *rest)
{
	int i;

	mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, NULL);
	for (i = 0; i < COUNTED; i++) {
		int fd = open(TRACE "set_ftrace_filter", O_WRONLY | O_APPEND);

		if (fd < 0 || write(fd, counted[i], strlen(counted[i])) < 0) {
			printf("lab: %s can't be counted: error %d\n", counted[i],
			       errno);
			end("failed");
		}
		close(fd);
	}
	count_list(last, rest, false);
	count_list(last, rest, true);
}

#ifdef __riscv
struct segment {
	const void *buf;
	size_t bufsz;
	const void *mem;
	size_t memsz;
};

/* What is started: asks the SBI to shut down, by its system reset extension */
extern const char code[], code_end[];
asm("code:\n"
    "	li	a7, 0x53525354\n"
    "	li	a6, 0\n"
    "	li	a0, 0\n"
    "	li	a1, 0\n"
    "	ecall\n"
    "	j	.\n"
    "code_end:\n");

static void kexec(void)
{
	static char fdt[1 << 16];
	/* Where QEMU has memory, and the kernel is not */
	struct segment s[] = {
		{ code, code_end - code, (void *)0x90000000, 4096 },
		{ fdt, sizeof(fdt), (void *)0x90100000, sizeof(fdt) },
	};
	int fd = open("/sys/firmware/fdt", O_RDONLY);
	long ret;

	if (fd < 0 || read(fd, fdt, sizeof(fdt)) <= 0) {
		printf("lab: no device tree: error %d\n", errno);
		end("failed");
	}
	close(fd);
	ret = __nolibc_syscall4(__NR_kexec_load, s[0].mem, 2, s, 0);
	if (ret) {
		printf("lab: kexec_load: error %ld\n", ret);
		end("failed");
	}
	printf("lab: passed\n");
	sleep(1);
	reboot(LINUX_REBOOT_CMD_KEXEC);
	end("failed");
}
#else
static void kexec(void) { }
#endif

int main(void)
{
	char all[64], rest[64], but_last[64], only_last[64], text[512];
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
	snprintf(but_last, sizeof(but_last), "0-%d", last - 1);
	snprintf(only_last, sizeof(only_last), "%d", last);
	get("/proc/cmdline", text, sizeof(text));
	if (strstr(text, "lab.count")) {
		count(last, rest);
		end("passed");
	}
	if (strstr(text, "maxcpus=2")) {
		/* Where bringup is parallel, primary threads come first */
		not_all_online(all, "booted");
		put(CPUS "hotplug/online", "all");
		is_online(all, "the rest");
	}
	is_online(all, "booted");
	if (strstr(text, "isolcpus=3")) {
		isolated(all);
		end("passed");
	}

	for (round = 0; round < ROUNDS; round++) {
		put_each(last, "0");
		is_online("0", "one by one, offline");
		put_each(last, "1");
		is_online(all, "one by one, online");

		put(CPUS "hotplug/offline", rest);
		is_online("0", "a list, offline");
		put(CPUS "hotplug/online", "all");
		is_online(all, "all, online");

		get("/proc/cmdline", text, sizeof(text));
		if (strstr(text, "lab.cpu0")) {
			put(CPUS "hotplug/offline", but_last);
			is_online(only_last, "all but the last, offline");
			put(CPUS "hotplug/online", "all");
			is_online(all, "and online");
		}

		get(CPUS "smt/control", text, sizeof(text));
		if (strcmp(text, "on"))
			continue;
		put(CPUS "smt/control", "off");
		not_all_online(all, "SMT off");
		put(CPUS "smt/control", "on");
		is_online(all, "SMT on");
	}

	get("/proc/cmdline", text, sizeof(text));
	if (strstr(text, "lab.late"))
		late(all, rest);
	if (strstr(text, "lab.kexec"))
		kexec();
	end("passed");
	return 0;
}
