# SPDX-License-Identifier: GPL-2.0
# Every entry point of the project; 'make help' lists them.

# a value as the shell takes it, and the option of a variable that is given
quoted = '$(subst ','\'',$(1))'
opt = $(if $($(1)),$(2) $(call quoted,$($(1))))
# variables a user may give, and what the lab's options are called
ARGS = $(call opt,ARCH,--arch) $(call opt,PROFILE,--profile)
WHICH = $(call opt,ARCH,--arch) $(call opt,CPUS,--cpus) \
	$(call opt,THREADS,--threads) $(call opt,NODES,--nodes) \
	$(call opt,MACHINE,--machine) $(call opt,ACCEL,--accel)
VM = $(WHICH) $(call opt,PROFILE,--profile) \
	$(call opt,VARIANT,--variant) $(call opt,APPEND,--append)
SRC = $(call opt,LINUX,--linux)
REC = $(if $(RECORD),--record)
ifdef ONLY
$(error ONLY= has become K=, names as of pytest -k; see 'make help')
endif
# all of them
GIVEN = ACCEL APPEND ARCH CPUS CYCLES DISK FILE FORCE FULL JOB K LIMIT LINUX LIST \
	MACHINE MINUTES NODES NOTE PACKAGES PART PORT PROFILE RECORD SCENARIO SEED \
	THREADS VARIANT VARS WHAT
# make's own, kbuild's, which many type, and what programs have from the
# environment
OTHERS = MAKE% SHELL .% V O J CPUHP_% CCACHE_% PIP_% PYTHON% XDG_% LC_% LANG \
	%_proxy %_PROXY HOME PATH TMPDIR
UNKNOWN := $(filter-out $(GIVEN) $(OTHERS),$(foreach v,$(.VARIABLES),\
	$(if $(filter command,$(origin $(v))),$(v))))
ifneq ($(UNKNOWN),)
$(error no target takes $(UNKNOWN:%=%=); 'make help' says what there is)
endif

# the last line of bootstrap is the interpreter; it makes no change when
# everything is there. Nothing of this is a file that make could compare.
LAB = @python=$$(sh lab/bootstrap.sh) && exec "$$python" -m lab
export PYTHONDONTWRITEBYTECODE = 1
export PORT

.PHONY: help deps tree patches kernels guest boot shell run bench offcpu insns \
	model tables record test machines guests torture bisect-check \
	compile-matrix foreign litmus scx hwtest hwtest-check hwreport clean
help:
	@echo 'make boot      everything from nothing: packages, source, kernels,'
	@echo '               guest; shows SMT off and on, unpatched and patched'
	@echo '               [ARCH=x86_64|ppc64le|arm64; without, the first two]'
	@echo 'make test      all tests; ends with "N passed, N failed" [ARCH=]'
	@echo '               FULL=1: selftests in full length'
	@echo '               K=names: only those, as of pytest -k; parts are'
	@echo '               patches, builds, boots, sysfs, debug, each, lab'
	@echo
	@echo 'make tree      linux/: the base and one commit per patch'
	@echo '               [LINUX=git tree or tarball] [FORCE=1]'
	@echo '               PORT=6.12: that base and ports/6.12, here and with'
	@echo '               patches, kernels, guest, shell, run, boot, bench'
	@echo 'make patches   write patches/ back from linux/'
	@echo 'make kernels   base and patched images [ARCH=] [NOTE=1: and what of the'
	@echo '               series they have not compiled, lab/unbuilt.json]'
	@echo '               [PROFILE=debug|kcsan|tree03|rt|nohz|bpf|scx|hwtest:'
	@echo '               configs/*.config]'
	@echo 'make guest     the root file systems [ARCH=]'
	@echo 'make shell     interactive guest [ARCH=] [CPUS=] [THREADS=] [NODES=]'
	@echo '               [MACHINE=q35|pseries|powernv10|powernv9|virt]'
	@echo '               [ACCEL=icount|mttcg|kvm] [VARIANT=base|patched]'
	@echo '               [PROFILE=] [APPEND=kernel parameters]'
	@echo 'make run JOB=  run a bash file in the guest; variables of shell'
	@echo '               [LIMIT=seconds: then it is ended; 300]'
	@echo '               [VARS="A=1 B=2" of the job] [DISK=serial=file|bytes]'
	@echo '               guest/jobs/*.sh say what they take'
	@echo 'make bench     measure [SCENARIO=name|all|huge] [CPUS=] [ACCEL=]'
	@echo '               FULL=1: all sizes. RECORD=1, here and for what can be'
	@echo '               recorded below: keep it in bench/results/, make tables'
	@echo 'make offcpu    where SMT off and on are blocked: offcputime of bcc on'
	@echo '               both kernels, side by side [ARCH=] [CPUS=] [RECORD=1]'
	@echo 'make insns     in which functions SMT off and on spend instructions, on'
	@echo '               both kernels, side by side [ARCH=] [CPUS=] [RECORD=1];'
	@echo '               WHAT=rebuild: of the sched domains'
	@echo 'make model     how the costs grow, checked on the largest machine that'
	@echo '               was recorded; an estimate for 1920 CPUs'
	@echo 'make tables    README.md and docs/ from bench/results/*.json, without'
	@echo '               measuring; plots in out/results/; what of it is stale'
	@echo 'make record    record all that is stale or missing, one after the other;'
	@echo '               it goes on where it was ended [LIMIT=minutes: then nothing'
	@echo '               more is begun] [K="words that are in its name"] [LIST=1:'
	@echo '               only say what, and how long it takes]'
	@echo 'make machines  the patched kernel on many machines [ARCH=]'
	@echo '               [K=names] [CYCLES= of the leak loop] [RECORD=1]'
	@echo '               FULL=1: and each selftest in full length'
	@echo 'make guests    the same'
	@echo 'make torture   boots with random hotplug for MINUTES=30 [ARCH=]'
	@echo '               [PROFILE=debug|kcsan|tree03] [SEED=] [RECORD=1]'
	@echo 'make bisect-check  build and boot after every patch [ARCH=]; resumes'
	@echo '               [PART=a part|tips: the last patch of each part|alone:'
	@echo '               parts that need no other, on the base]'
	@echo 'make compile-matrix  other configurations and architectures [K=]'
	@echo '               [RECORD=1]'
	@echo 'make foreign   RISC-V and big-endian pseries: small kernels boot, CPUs'
	@echo '               go and come [K=] [RECORD=1]'
	@echo 'make litmus    what the memory model says about the litmus tests of the'
	@echo '               series (herd7) [RECORD=1]'
	@echo 'make scx       CPUs go and come with a BPF scheduler loaded (sched_ext)'
	@echo '               [RECORD=1]'
	@echo 'make hwtest    one file for somebody with a machine: boots both kernels'
	@echo '               there from memory and comes back with a report [ARCH=]'
	@echo '               PACKAGES=1: the kernels as .deb and .rpm as well'
	@echo 'make hwtest-check  that file on a Debian in QEMU [ARCH=]'
	@echo 'make hwreport FILE=  keep such a report, show it in docs/hardware.md'
	@echo 'make deps      install what is missing (root or sudo)'
	@echo 'make clean     out/; the cache stays ($$CPUHP_CACHE, else'
	@echo '               ~/.cache/cpuhp-lab)'

deps:
	@sh lab/bootstrap.sh >/dev/null

tree:
	$(LAB) tree $(SRC) $(if $(FORCE),--force)
patches:
	$(LAB) patches
kernels:
	$(LAB) kernels $(SRC) $(ARGS) $(if $(NOTE),--note)
guest:
	$(LAB) guest $(SRC) $(call opt,ARCH,--arch)
boot:
	$(LAB) boot $(SRC) $(call opt,ARCH,--arch)
shell:
	$(LAB) shell $(SRC) $(VM)
run:
	$(LAB) run $(SRC) $(VM) $(call opt,LIMIT,--limit) \
		$(call opt,VARS,--vars) $(call opt,DISK,--disk) \
		$(call quoted,$(JOB))
bench:
	$(LAB) bench $(SRC) $(REC) $(call opt,SCENARIO,--scenario) \
		$(call opt,CPUS,--cpus) $(call opt,ARCH,--arch) \
		$(call opt,ACCEL,--accel) $(if $(FULL),--full)
offcpu:
	$(LAB) offcpu $(SRC) $(REC) $(WHICH)
insns:
	$(LAB) insns $(SRC) $(REC) $(WHICH) $(call opt,WHAT,--what)
model:
	$(LAB) model $(SRC)
tables:
	$(LAB) tables $(SRC)
record:
	$(LAB) record $(SRC) $(call opt,K,-k) \
		$(call opt,LIMIT,--limit) $(if $(LIST),--list)
test:
	$(LAB) test $(SRC) $(call opt,ARCH,--arch) \
		$(call opt,K,-k) $(if $(FULL),--full)
machines guests:
	$(LAB) machines $(SRC) $(REC) $(call opt,ARCH,--arch) \
		$(call opt,K,-k) $(call opt,CYCLES,--cycles) \
		$(if $(FULL),--full)
torture:
	$(LAB) torture $(SRC) $(REC) $(ARGS) \
		$(call opt,MINUTES,--minutes) $(call opt,SEED,--seed)
bisect-check:
	$(LAB) bisect-check $(SRC) $(call opt,ARCH,--arch) \
		$(call opt,PART,--part)
compile-matrix:
	$(LAB) compile-matrix $(SRC) $(REC) $(call opt,K,-k)
foreign:
	$(LAB) foreign $(SRC) $(REC) $(call opt,K,-k)
litmus:
	$(LAB) litmus $(SRC) $(REC)
scx:
	$(LAB) scx $(SRC) $(REC)
hwtest:
	$(LAB) hwtest $(SRC) $(call opt,ARCH,--arch) \
		$(if $(PACKAGES),--packages)
hwtest-check:
	$(LAB) hwtest-check $(SRC) $(call opt,ARCH,--arch) \
		$(call opt,K,-k)
hwreport:
	$(LAB) hwreport $(call quoted,$(FILE))
clean:
	rm -rf out
