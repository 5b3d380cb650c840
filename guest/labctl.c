// SPDX-License-Identifier: GPL-2.0
/*
 * What a shell can't do well in the guest: time one system call or program
 * in nanoseconds, print JSON, power off without a service manager.
 *
 *   labctl write FILE TEXT... one write(2); prints its nanoseconds; of more
 *                             than one the time of all, one after the other
 *   labctl run PROG ARG...    prints the nanoseconds from fork to exit;
 *                             the program's stdout is discarded
 *   labctl gap FILE TEXT      one write(2); prints the longest time for which
 *                             a real-time task on CPU 0 did not run meanwhile
 *   labctl lockwait FILE TEXT one write(2); prints how long somebody on CPU 0
 *                             who needs cpus_read_lock() waited at the longest
 *   labctl membarrier CPU|all FILE TEXT  ... somebody on this CPU, or on any one,
 *                             all of whom call membarrier(2) again and again
 *   labctl half FILE TEXT     one write(2) that brings CPUs up; prints how long it
 *                             took until tasks ran on half of them
 *   labctl halves FILE TEXT   the same, and how long the write took: whoever looks
 *                             for CPUs takes time of both
 *   labctl wakeup US FILE TEXT  one write(2), and US microseconds after it began
 *                             an event which keeps the machine from suspend
 *   labctl uncached FILE      writes 64 KiB with RWF_DONTCACHE, and fsync(2)
 *   labctl timer              a timer of the network's, 30 s from now, on the
 *                             CPU which it runs on; stays there until killed
 *   labctl spin               stays in user space, lets others of the host run
 *   labctl cookie PROG ARG... runs it where no other task shares the core
 *   labctl now                CLOCK_MONOTONIC in nanoseconds
 *   labctl json T [K V]...    {"t": T, K: V, ...}
 *   labctl poweroff | reboot
 *
 * Exit: 0; 1 and a message on stderr when the timed thing failed (the time
 * is printed all the same); 2 for usage.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <linux/reboot.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

#define MAX_FILES 128

/* argv: FILE TEXT [FILE TEXT]... */
static int do_write(int n, char **argv)
{
	long long t0, t1 = 0;
	int fd[MAX_FILES];
	ssize_t ret = 0;
	int i, err = 0;

	for (i = 0; i < n; i += 2) {
		fd[i / 2] = open(argv[i], O_WRONLY | O_CLOEXEC);
		if (fd[i / 2] < 0) {
			fprintf(stderr, "%s: %s\n", argv[i], strerror(errno));
			return 1;
		}
	}
	t0 = now();
	for (i = 0; i < n; i += 2) {
		ret = write(fd[i / 2], argv[i + 1], strlen(argv[i + 1]));
		err = errno;
		t1 = now();
		if (ret != (ssize_t)strlen(argv[i + 1]))
			break;
	}
	printf("%lld\n", t1 - t0);
	if (i < n) {
		fprintf(stderr, "%s: %s\n", argv[i],
			ret < 0 ? strerror(err) : "short write");
		return 1;
	}
	return 0;
}

static int do_run(char **argv)
{
	long long t0 = now();
	int status;
	pid_t pid;

	pid = fork();
	if (pid < 0) {
		perror("fork");
		return 1;
	}
	if (!pid) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, STDOUT_FILENO);
		execvp(argv[0], argv);
		perror(argv[0]);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	printf("%lld\n", now() - t0);
	if (!WIFEXITED(status) || WEXITSTATUS(status)) {
		fprintf(stderr, "%s: status %#x\n", argv[0], status);
		return 1;
	}
	return 0;
}

/* What the one who watches and the one who writes share */
struct watch {
	volatile int ready, stop, failed;
	volatile long long longest;
};

static void longest(struct watch *w, long long ns)
{
	if (ns > w->longest)
		w->longest = ns;
}

/* An emulator goes on with the next CPU here */
static void relax(void)
{
#if defined(__x86_64__)
	__asm__ volatile("pause");
#elif defined(__powerpc64__)
	__asm__ volatile("or 1,1,1; or 2,2,2");
#endif
}

/* A task which nothing but the kernel can keep from running */
static void watch_gap(struct watch *w)
{
	struct sched_param param = { .sched_priority = 1 };
	long long t0, t1;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	if (sched_setaffinity(0, sizeof(set), &set) ||
	    sched_setscheduler(0, SCHED_FIFO, &param)) {
		perror("gap");
		w->failed = 1;
		return;
	}
	w->ready = 1;
	for (t0 = now(); !w->stop; t0 = t1) {
		t1 = now();
		longest(w, t1 - t0);
		relax();
	}
}

/*
 * A task which needs cpus_read_lock() again and again. /proc/vmstat takes it
 * for each read from the start, to sum up the events of the CPUs online; that
 * sends no IPI and waits for nobody else. It sleeps in between, for an emulator
 * lets others wait while a CPU spins: so what it sees may be short by that.
 */
static void watch_lock(struct watch *w)
{
	char buf[64];
	long long t0;
	cpu_set_t set;
	int fd;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	fd = open("/proc/vmstat", O_RDONLY | O_CLOEXEC);
	if (fd < 0 || sched_setaffinity(0, sizeof(set), &set) ||
	    prctl(PR_SET_TIMERSLACK, 1)) {
		perror("lockwait");
		w->failed = 1;
		return;
	}
	w->ready = 1;
	while (!w->stop && !w->failed) {
		t0 = now();
		if (pread(fd, buf, sizeof(buf), 0) <= 0)
			w->failed = 1;
		longest(w, now() - t0);
		usleep(100);
	}
}

/* Who waits for the lock: one on each of these CPUs */
static int watch_first, watch_last;

/*
 * The same by membarrier(2), which takes the lock and then looks for CPUs that
 * run a task which has registered; there is none. Each task begins on a CPU of
 * its own; when that goes it is pushed to another. The first one is this one.
 */
static void watch_membarrier(struct watch *w)
{
	cpu_set_t set;
	long long t0;
	int cpu;

	prctl(PR_SET_TIMERSLACK, 1);
	for (cpu = watch_first; cpu < watch_last; cpu++) {
		if (!fork())
			break;
	}
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	/* One that is offline has no reader */
	if (sched_setaffinity(0, sizeof(set), &set) && errno != EINVAL) {
		perror("membarrier");
		w->failed = 1;
	}
	if (cpu == watch_last)
		w->ready = 1;
	while (!w->stop && !w->failed) {
		t0 = now();
		if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0))
			w->failed = 1;
		longest(w, now() - t0);
		usleep(watch_last > watch_first ? 2000 : 100);
	}
	if (cpu != watch_last)
		_exit(0);
	while (wait(NULL) > 0)
		;
}

/* The CPUs of a list in sysfs */
static int read_list(const char *name, cpu_set_t *set)
{
	char path[64], buf[4096], *p = buf;
	long from, to;
	FILE *f;

	CPU_ZERO(set);
	snprintf(path, sizeof(path), "/sys/devices/system/cpu/%s", name);
	f = fopen(path, "r");
	if (!f || !fgets(buf, sizeof(buf), f)) {
		perror(path);
		return -1;
	}
	fclose(f);
	while (*p >= '0' && *p <= '9') {
		from = to = strtol(p, &p, 10);
		if (*p == '-')
			to = strtol(p + 1, &p, 10);
		for (; from <= to; from++)
			CPU_SET(from, set);
		if (*p == ',')
			p++;
	}
	return 0;
}

struct half {
	volatile int stop;
	volatile long long ran[CPU_SETSIZE];
};

/* Wakes up a task for each CPU on it as soon as it may run there */
static void watch_half(struct half *h, const cpu_set_t *cpus, pid_t *pids, int *fds)
{
	cpu_set_t left = *cpus, set;
	int cpu;

	prctl(PR_SET_TIMERSLACK, 1);
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	sched_setaffinity(0, sizeof(set), &set);
	while (!h->stop && CPU_COUNT(&left)) {
		for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
			if (!CPU_ISSET(cpu, &left))
				continue;
			CPU_ZERO(&set);
			CPU_SET(cpu, &set);
			if (sched_setaffinity(pids[cpu], sizeof(set), &set))
				continue;
			CPU_CLR(cpu, &left);
			if (write(fds[cpu], "x", 1) != 1)
				perror("half");
		}
		usleep(200);
	}
}

static int by_time(const void *a, const void *b)
{
	long long x = *(const long long *)a, y = *(const long long *)b;

	return (x > y) - (x < y);
}

static int do_half(const char *file, const char *text, int whole)
{
	struct half *h = mmap(NULL, sizeof(*h), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	static long long times[CPU_SETSIZE];
	static pid_t pids[CPU_SETSIZE];
	static int fds[CPU_SETSIZE];
	cpu_set_t present, online, cpus, set;
	size_t len = strlen(text);
	int fd, cpu, n = 0, p[2], i, ret = 0;
	long long t0, t1;
	pid_t watch;
	char c;

	fd = open(file, O_WRONLY | O_CLOEXEC);
	if (h == MAP_FAILED || fd < 0 || read_list("present", &present) ||
	    read_list("online", &online)) {
		fprintf(stderr, "%s: %s\n", file, strerror(errno));
		return 1;
	}
	CPU_XOR(&cpus, &present, &online);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &cpus))
			continue;
		if (pipe2(p, O_CLOEXEC))
			return 1;
		pids[cpu] = fork();
		if (!pids[cpu]) {
			close(p[1]);
			if (read(p[0], &c, 1) == 1)
				h->ran[cpu] = now();
			_exit(0);
		}
		close(p[0]);
		fds[cpu] = p[1];
	}
	watch = fork();
	if (!watch) {
		watch_half(h, &cpus, pids, fds);
		_exit(0);
	}
	/* Not on the CPU of the one who watches */
	CPU_ZERO(&set);
	for (cpu = 1; cpu < CPU_SETSIZE; cpu++)
		CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	usleep(10000);
	t0 = now();
	if (write(fd, text, len) != (ssize_t)len) {
		fprintf(stderr, "%s: %s\n", file, strerror(errno));
		ret = 1;
	}
	t1 = now();
	/* The last one is to run as well */
	usleep(10000);
	h->stop = 1;
	waitpid(watch, NULL, 0);
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &cpus))
			continue;
		if (h->ran[cpu])
			times[n++] = h->ran[cpu];
		else
			kill(pids[cpu], SIGKILL);
		waitpid(pids[cpu], NULL, 0);
	}
	i = (CPU_COUNT(&cpus) + 1) / 2;
	if (!i || n < i) {
		fprintf(stderr, "half: tasks ran on %d of %d CPUs\n", n,
			CPU_COUNT(&cpus));
		return 1;
	}
	qsort(times, n, sizeof(*times), by_time);
	if (whole)
		printf("%lld %lld\n", times[i - 1] - t0, t1 - t0);
	else
		printf("%lld\n", times[i - 1] - t0);
	return ret;
}

/* Prints what the above saw while FILE is written to */
static int do_watched(void (*func)(struct watch *w), const char *file,
		      const char *text)
{
	struct watch *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	size_t len = strlen(text);
	int fd, ret = 0, i;
	cpu_set_t set;
	pid_t pid;

	fd = open(file, O_WRONLY | O_CLOEXEC);
	if (w == MAP_FAILED || fd < 0) {
		fprintf(stderr, "%s: %s\n", file, strerror(errno));
		return 1;
	}
	pid = fork();
	if (!pid) {
		func(w);
		_exit(0);
	}
	/* Not on the CPU of the one who watches */
	CPU_ZERO(&set);
	for (i = 1; i < CPU_SETSIZE; i++)
		CPU_SET(i, &set);
	sched_setaffinity(0, sizeof(set), &set);
	while (pid > 0 && !w->ready && !w->failed)
		usleep(1000);
	usleep(10000);
	if (pid < 0 || w->failed || write(fd, text, len) != (ssize_t)len) {
		fprintf(stderr, "%s: %s\n", file, strerror(errno));
		ret = 1;
	}
	w->stop = 1;
	if (pid > 0)
		waitpid(pid, NULL, 0);
	printf("%lld\n", w->longest);
	return ret;
}

static void json_string(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		unsigned char c = *s;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c > 0x7e)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

static int do_json(int n, char **v)
{
	int i;

	printf("{\"t\": ");
	json_string(v[0]);
	for (i = 1; i + 1 < n; i += 2) {
		printf(", ");
		json_string(v[i]);
		printf(": ");
		json_string(v[i + 1]);
	}
	printf("}\n");
	return 0;
}

/* By a timer, as nobody but the kernel runs then */
static int do_wakeup(const char *us, const char *file, const char *text)
{
	long n = strtol(us, NULL, 10);
	struct itimerspec at = { .it_value = { n / 1000000, n % 1000000 * 1000 } };
	struct epoll_event event = { .events = EPOLLIN | EPOLLWAKEUP };
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int fd = open(file, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event) ||
	    timerfd_settime(timer, 0, &at, NULL) ||
	    write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
		fprintf(stderr, "%s: %s\n", file, strerror(errno));
		return 1;
	}
	return 0;
}

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE	0x80
#endif

/*
 * A buffered write which leaves nothing in the page cache, and its writeback.
 * Not where the search for partitions has been, which is in the cache.
 */
static int do_uncached(const char *path)
{
	static char data[65536];
	struct iovec v = { .iov_base = data, .iov_len = sizeof(data) };
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0 || pwritev2(fd, &v, 1, 16 << 20, RWF_DONTCACHE) != sizeof(data) ||
	    fsync(fd)) {
		perror(path);
		return 1;
	}
	return 0;
}

/* Keepalive: on the timer wheel, and may expire on any CPU. Not freezable. */
static int do_timer(void)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
	int server = socket(AF_INET, SOCK_STREAM, 0), on = 1, idle = 30;
	int client = socket(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(addr);

	if (ioctl(server, SIOCSIFFLAGS, &lo) ||
	    bind(server, (struct sockaddr *)&addr, len) || listen(server, 1) ||
	    getsockname(server, (struct sockaddr *)&addr, &len) ||
	    connect(client, (struct sockaddr *)&addr, len) ||
	    setsockopt(client, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle)) ||
	    setsockopt(client, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on))) {
		perror("timer");
		return 1;
	}
	puts("armed");
	fflush(stdout);
	pause();
	return 0;
}

/* TCG takes the hint for a yield, where CPUs take turns */
static void do_spin(void)
{
	for (;;) {
		for (volatile int i = 0; i < 1000; i++)
			;
#if defined(__x86_64__)
		__builtin_ia32_pause();
#elif defined(__powerpc64__)
		asm volatile("or 1,1,1");
#elif defined(__aarch64__)
		asm volatile("yield");
#endif
	}
}

static int do_cookie(char **argv)
{
	if (prctl(PR_SCHED_CORE, PR_SCHED_CORE_CREATE, 0, 0, 0)) {
		perror("cookie");
		return 1;
	}
	execvp(argv[0], argv);
	perror(argv[0]);
	return 1;
}

int main(int argc, char **argv)
{
	const char *cmd = argc > 1 ? argv[1] : "";

	if (!strcmp(cmd, "write") && argc >= 4 && argc % 2 == 0 &&
	    argc <= 2 + 2 * MAX_FILES)
		return do_write(argc - 2, argv + 2);
	if (!strcmp(cmd, "gap") && argc == 4)
		return do_watched(watch_gap, argv[2], argv[3]);
	if (!strcmp(cmd, "lockwait") && argc == 4)
		return do_watched(watch_lock, argv[2], argv[3]);
	if (!strcmp(cmd, "membarrier") && argc == 5) {
		watch_first = watch_last = atoi(argv[2]);
		if (!strcmp(argv[2], "all"))
			watch_last = sysconf(_SC_NPROCESSORS_CONF) - 1;
		return do_watched(watch_membarrier, argv[3], argv[4]);
	}
	if ((!strcmp(cmd, "half") || !strcmp(cmd, "halves")) && argc == 4)
		return do_half(argv[2], argv[3], !strcmp(cmd, "halves"));
	if (!strcmp(cmd, "run") && argc > 2)
		return do_run(argv + 2);
	if (!strcmp(cmd, "wakeup") && argc == 5)
		return do_wakeup(argv[2], argv[3], argv[4]);
	if (!strcmp(cmd, "spin") && argc == 2)
		do_spin();
	if (!strcmp(cmd, "uncached") && argc == 3)
		return do_uncached(argv[2]);
	if (!strcmp(cmd, "timer") && argc == 2)
		return do_timer();
	if (!strcmp(cmd, "cookie") && argc > 2)
		return do_cookie(argv + 2);
	if (!strcmp(cmd, "now") && argc == 2)
		return printf("%lld\n", now()) < 0;
	if (!strcmp(cmd, "json") && argc > 2 && argc % 2)
		return do_json(argc - 2, argv + 2);
	if (!strcmp(cmd, "poweroff") || !strcmp(cmd, "reboot")) {
		sync();
		reboot(*cmd == 'p' ? LINUX_REBOOT_CMD_POWER_OFF :
				     LINUX_REBOOT_CMD_RESTART);
		perror(cmd);
		pause();
	}
	fprintf(stderr, "usage: labctl write|run|gap|lockwait|membarrier|half|"
		"wakeup|uncached|timer|cookie|now|json|poweroff|reboot\n");
	return 2;
}
