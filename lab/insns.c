// SPDX-License-Identifier: GPL-2.0
/*
 * QEMU plugin: how often each block of guest code runs during an operation.
 *
 *   -plugin insns.so,from=ADDR,to=ADDR[,size=N][,from=...,to=...],skip=N,out=FILE
 *
 * An operation begins when the code at from= runs and ends when that at to=
 * runs (addresses in hex, of kernel functions), or with size= any of that many
 * bytes from there on: of the function that called from=. There may be several
 * pairs, for operations of several kinds. The first N operations are not counted.
 * What all CPUs execute in between is. Nothing is added to the guest, so its
 * virtual time (icount, one nanosecond an instruction) is as without.
 *
 * FILE has a line for each block: the operation's number (the first that was
 * counted is 0), the address in hex, instructions in the block, how often.
 *
 * Debian has no package with qemu-plugin.h, hence the declarations. They are of
 * version 4 of the interface, that of QEMU 10; an older one refuses it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_OPS 8
#define MAX_PAIRS 4

typedef uint64_t qemu_plugin_id_t;
struct qemu_plugin_tb;
struct qemu_info;

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id,
		void (*cb)(qemu_plugin_id_t id, struct qemu_plugin_tb *tb));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb,
		void (*cb)(unsigned int cpu, void *data), int flags, void *data);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id,
		void (*cb)(qemu_plugin_id_t id, void *data), void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *tb);

EXPORT int qemu_plugin_version = 4;

/* A block may be translated more than once; whoever reads the file adds up */
struct block {
	struct block *next;
	uint64_t addr, insns, count[MAX_OPS];
};

static struct block *blocks;
static struct pair {
	uint64_t from, to, size;
} pairs[MAX_PAIRS], *current;
static const char *out;
static int npairs, skip, started, counting = -1;

static void begin(unsigned int cpu, void *data)
{
	if (current)
		return;
	current = data;
	if (started >= skip && started - skip < MAX_OPS)
		counting = started - skip;
	started++;
}

static void end(unsigned int cpu, void *data)
{
	if (current != data)
		return;
	current = NULL;
	counting = -1;
}

static void run(unsigned int cpu, void *data)
{
	struct block *b = data;

	/* icount: all CPUs in one thread */
	if (counting >= 0)
		b->count[counting]++;
}

/* A function is entered at its address, on ppc64le also 8 bytes later */
static int at(uint64_t addr, uint64_t func)
{
	return addr == func || addr == func + 8;
}

static int ends(uint64_t addr, struct pair *p)
{
	return p->size ? addr - p->to < p->size : at(addr, p->to);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	struct block *b = calloc(1, sizeof(*b));
	struct pair *p;

	if (!b)
		abort();
	b->addr = qemu_plugin_tb_vaddr(tb);
	b->insns = qemu_plugin_tb_n_insns(tb);
	b->next = blocks;
	blocks = b;

	for (p = pairs; p < pairs + npairs; p++) {
		if (at(b->addr, p->from))
			qemu_plugin_register_vcpu_tb_exec_cb(tb, begin, 0, p);
		if (ends(b->addr, p))
			qemu_plugin_register_vcpu_tb_exec_cb(tb, end, 0, p);
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, run, 0, b);
}

static void finish(qemu_plugin_id_t id, void *data)
{
	FILE *f = fopen(out, "w");
	struct block *b;
	int i;

	if (!f) {
		perror(out);
		return;
	}
	for (b = blocks; b; b = b->next) {
		for (i = 0; i < MAX_OPS; i++) {
			if (b->count[i])
				fprintf(f, "%d %" PRIx64 " %" PRIu64 " %" PRIu64
					"\n", i, b->addr, b->insns, b->count[i]);
		}
	}
	if (fclose(f))
		perror(out);
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info,
			       int argc, char **argv)
{
	struct pair *p = NULL;
	int i;

	for (i = 0; i < argc; i++) {
		char *value = strchr(argv[i], '=');

		if (!value) {
			fprintf(stderr, "insns: no value: %s\n", argv[i]);
			return -1;
		}
		*value++ = '\0';
		if (!strcmp(argv[i], "from") && npairs < MAX_PAIRS) {
			p = &pairs[npairs++];
			p->from = strtoull(value, NULL, 16);
		} else if (!strcmp(argv[i], "to") && p)
			p->to = strtoull(value, NULL, 16);
		else if (!strcmp(argv[i], "size") && p)
			p->size = strtoull(value, NULL, 16);
		else if (!strcmp(argv[i], "skip"))
			skip = atoi(value);
		else if (!strcmp(argv[i], "out"))
			out = strdup(value);
	}
	for (i = 0; i < npairs && pairs[i].from && pairs[i].to; i++)
		;
	if (!npairs || i < npairs || !out) {
		fprintf(stderr, "insns: from=, to= and out= are needed\n");
		return -1;
	}

	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, finish, NULL);
	return 0;
}
