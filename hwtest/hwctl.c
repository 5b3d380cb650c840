// SPDX-License-Identifier: GPL-2.0
/*
 * What a shell can't do in a stage of the kit, or on the distribution, where it
 * need not have the tools; static.
 *
 *   hwctl load KERNEL INITRD PARAMETERS   for kexec; the running kernel reads them
 *   hwctl load-crash KERNEL INITRD PARAMETERS, unload-crash
 *   hwctl kexec                now, without a shutdown
 *   hwctl watchdog SECONDS     then the kernel panics, or the machine is reset where
 *                              it has a watchdog; SIGTERM: not any more
 *   hwctl tlb SECONDS          replaces a page that all CPUs read; 1 if one of
 *                              them reads what was unmapped before it began
 *   hwctl guests SECONDS       two KVM guests with a CPU each that count and halt:
 *                              prints rounds, exits and stolen nanoseconds (x86)
 *
 * Exit: 0; 1 and a message on stderr; 2 for usage.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/kexec.h>
#include <linux/kvm.h>
#include <linux/reboot.h>
#include <linux/watchdog.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int fail(const char *what)
{
	fprintf(stderr, "hwctl: %s: %s\n", what, strerror(errno));
	return 1;
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* ---- kexec ------------------------------------------------------------- */

static int load(char **argv, unsigned long flags)
{
	int kernel = open(argv[0], O_RDONLY | O_CLOEXEC);
	int initrd = open(argv[1], O_RDONLY | O_CLOEXEC);

	if (kernel < 0)
		return fail(argv[0]);
	if (initrd < 0)
		return fail(argv[1]);
	if (syscall(SYS_kexec_file_load, kernel, initrd, strlen(argv[2]) + 1,
		    argv[2], flags))
		return fail("kexec_file_load");
	return 0;
}

/* ---- watchdog ---------------------------------------------------------- */

static volatile sig_atomic_t ended;

static void end(int sig)
{
	ended = 1;
}

/*
 * The software watchdog is a timer of the kernel's that panics: it is set once.
 * Those of the hardware have shorter limits: they are kept away until then, and
 * reset the machine if the panic has not come.
 */
static int watchdog(int seconds)
{
	struct sigaction act = { .sa_handler = end };
	int fds[16], soft[16], n = 0, i;
	double until = now() + seconds;
	struct watchdog_info info;
	glob_t g;

	sigaction(SIGTERM, &act, NULL);
	if (glob("/dev/watchdog[0-9]*", 0, NULL, &g))
		return fail("/dev/watchdog0");
	for (i = 0; i < (int)g.gl_pathc && n < 16; i++) {
		fds[n] = open(g.gl_pathv[i], O_WRONLY | O_CLOEXEC);
		if (fds[n] < 0 || ioctl(fds[n], WDIOC_GETSUPPORT, &info))
			continue;
		soft[n] = !strcmp((char *)info.identity, "Software Watchdog");
		if (soft[n]) {
			int timeout = seconds;

			if (ioctl(fds[n], WDIOC_SETTIMEOUT, &timeout))
				return fail("WDIOC_SETTIMEOUT");
		}
		n++;
	}
	while (!ended) {
		for (i = 0; i < n; i++) {
			if (!soft[i] && now() < until + 30)
				ioctl(fds[i], WDIOC_KEEPALIVE, 0);
		}
		sleep(2);
	}
	for (i = 0; i < n; i++) {
		if (write(fds[i], "V", 1) != 1)
			return fail("watchdog");
		close(fds[i]);
	}
	return 0;
}

/* ---- TLB --------------------------------------------------------------- */

static volatile unsigned long *page, published;
static volatile int stale, stop;

static void *reader(void *arg)
{
	unsigned long want, got;

	while (!stop) {
		want = __atomic_load_n(&published, __ATOMIC_ACQUIRE);
		got = *page;
		if (got < want) {
			fprintf(stderr, "hwctl: read %lu after %lu\n", got, want);
			stale = 1;
		}
	}
	return NULL;
}

static int tlb(int seconds)
{
	int n = sysconf(_SC_NPROCESSORS_CONF), i;
	size_t size = sysconf(_SC_PAGESIZE);
	double until = now() + seconds;
	pthread_t *threads = calloc(n, sizeof(*threads));
	unsigned long round;
	void *new;

	page = mmap(NULL, size, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < n; i++) {
		if (pthread_create(&threads[i], NULL, reader, NULL))
			return fail("thread");
	}
	for (round = 1; now() < until && !stale; round++) {
		new = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		*(unsigned long *)new = round;
		/* in one step for whoever reads there */
		if (mremap(new, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
			   page) == MAP_FAILED)
			return fail("mremap");
		__atomic_store_n(&published, round, __ATOMIC_RELEASE);
	}
	stop = 1;
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	printf("%lu pages replaced\n", round - 1);
	return stale;
}

/* ---- guests ------------------------------------------------------------ */

#ifdef __x86_64__
#define MSR_STEAL 0x4b564d03

/*
 * Real mode: counts 50000 rounds, then tells us; once in a while it is on and off
 * the CPU as any guest.
 */
static const unsigned char code[] = {
	0xb9, 0x50, 0xc3,		/* again: mov $50000, %cx */
	0xe2, 0xfe,			/* loop . */
	0xe6, 0x10,			/* out %al, $0x10 */
	0xeb, 0xf7,			/* jmp again */
};

struct guest {
	int vcpu;
	struct kvm_run *run;
	unsigned char *memory;
	double until;
	unsigned long rounds;
	double gap;
};

static int make_guest(int kvm, struct guest *g)
{
	struct { struct kvm_msrs h; struct kvm_msr_entry e; } msr = {
		{ .nmsrs = 1 }, { .index = MSR_STEAL, .data = 0x2000 | 1 } };
	struct { struct kvm_cpuid2 h; struct kvm_cpuid_entry2 e[128]; } cpuid = {
		{ .nent = 128 } };
	struct kvm_userspace_memory_region region = { .memory_size = 0x10000 };
	struct kvm_regs regs = { .rip = 0x1000, .rflags = 2 };
	struct kvm_sregs sregs;
	int vm = ioctl(kvm, KVM_CREATE_VM, 0);
	int size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);

	g->memory = mmap(NULL, region.memory_size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memcpy(g->memory + 0x1000, code, sizeof(code));
	region.userspace_addr = (uintptr_t)g->memory;
	if (vm < 0)
		return fail("KVM_CREATE_VM");
	if (ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region))
		return fail("KVM_SET_USER_MEMORY_REGION");
	g->vcpu = ioctl(vm, KVM_CREATE_VCPU, 0);
	if (g->vcpu < 0)
		return fail("KVM_CREATE_VCPU");
	g->run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, g->vcpu, 0);
	if (ioctl(kvm, KVM_GET_SUPPORTED_CPUID, &cpuid) ||
	    ioctl(g->vcpu, KVM_SET_CPUID2, &cpuid) ||
	    ioctl(g->vcpu, KVM_GET_SREGS, &sregs))
		return fail("a CPU of KVM");
	sregs.cs.base = sregs.cs.selector = 0;
	if (ioctl(g->vcpu, KVM_SET_SREGS, &sregs) ||
	    ioctl(g->vcpu, KVM_SET_REGS, &regs))
		return fail("registers of KVM");
	/* what Linux as a guest would ask for */
	if (ioctl(g->vcpu, KVM_SET_MSRS, &msr) != 1)
		return fail("steal time of KVM");
	return 0;
}

static void *run_guest(void *arg)
{
	struct guest *g = arg;
	double last = now(), t;

	while (last < g->until) {
		if (ioctl(g->vcpu, KVM_RUN, 0) && errno != EINTR)
			break;
		if (g->run->exit_reason != KVM_EXIT_IO)
			continue;
		g->rounds++;
		t = now();
		if (g->rounds > 1 && t - last > g->gap)
			g->gap = t - last;
		last = t;
	}
	return NULL;
}

/* of all guests, /sys/kernel/debug/kvm/exits */
static unsigned long long exits(void)
{
	unsigned long long n = 0;
	FILE *f = fopen("/sys/kernel/debug/kvm/exits", "r");

	if (f) {
		if (fscanf(f, "%llu", &n) != 1)
			n = 0;
		fclose(f);
	}
	return n;
}

static int guests(int seconds)
{
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), i;
	unsigned long long before, after;
	struct guest g[2] = { { 0 } };
	pthread_t threads[2];

	if (kvm < 0)
		return fail("/dev/kvm");
	before = exits();
	for (i = 0; i < 2; i++) {
		if (make_guest(kvm, &g[i]))
			return 1;
		g[i].until = now() + seconds;
		if (pthread_create(&threads[i], NULL, run_guest, &g[i]))
			return fail("thread");
	}
	for (i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	after = exits();
	for (i = 0; i < 2; i++) {
		if (g[i].rounds < 2) {
			fprintf(stderr, "hwctl: guest %d: exit reason %u\n", i,
				g[i].run->exit_reason);
			return 1;
		}
		printf("rounds%d %lu steal_ns%d %llu longest_us%d %.0f ", i,
		       g[i].rounds, i,
		       *(unsigned long long *)(g[i].memory + 0x2000), i,
		       g[i].gap * 1e6);
	}
	printf("exits %llu\n", after - before);
	return 0;
}
#else
static int guests(int seconds)
{
	fprintf(stderr, "hwctl: only on x86-64\n");
	return 1;
}
#endif

int main(int argc, char **argv)
{
	const char *cmd = argc > 1 ? argv[1] : "";

	if (!strcmp(cmd, "load") && argc == 5)
		return load(argv + 2, 0);
	if (!strcmp(cmd, "load-crash") && argc == 5)
		return load(argv + 2, KEXEC_FILE_ON_CRASH);
	if (!strcmp(cmd, "unload-crash") && argc == 2)
		return syscall(SYS_kexec_file_load, -1, -1, 0, NULL,
			       KEXEC_FILE_UNLOAD | KEXEC_FILE_ON_CRASH) ?
			fail("unload") : 0;
	if (!strcmp(cmd, "kexec") && argc == 2) {
		sync();
		reboot(LINUX_REBOOT_CMD_KEXEC);
		return fail("kexec");
	}
	if (!strcmp(cmd, "watchdog") && argc == 3)
		return watchdog(atoi(argv[2]));
	if (!strcmp(cmd, "tlb") && argc == 3)
		return tlb(atoi(argv[2]));
	if (!strcmp(cmd, "guests") && argc == 3)
		return guests(atoi(argv[2]));
	fprintf(stderr, "usage: hwctl load|load-crash|unload-crash|kexec|watchdog|"
		"tlb|guests\n");
	return 2;
}
