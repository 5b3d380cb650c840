# SPDX-License-Identifier: GPL-2.0
# stress-test.sh with a disk that is written and read back, a network card in use,
# packets that are steered and code that is traced:
# make run DISK=scratch=4194304 PROFILE=torture (which can schedule cores)
# LASTS: its length. SEED: decides about all that is random. FAULTS, LOAD,
# WRITES: as stress-test.sh has them. NETWORK=1: QEMU answers (make torture).
. /lab/prelude.sh
LASTS=${LASTS-20}
SEED=${SEED-1}
FAULTS=${FAULTS-0}
LOAD=${LOAD-0}
WRITES=${WRITES-6}
NETWORK=${NETWORK-}

disk=$(disk scratch) || die "no disk 'scratch'"
writer() {
	local n=0 at

	while [ ! -e /tmp/end ]; do
		at=$((n % 16 * 4))
		head -c 256k /dev/urandom > /tmp/data
		dd if=/tmp/data of=$disk bs=64k seek=$at oflag=direct status=none &&
			dd if=$disk bs=64k skip=$at count=4 iflag=direct \
				status=none | cmp - /tmp/data ||
			{ echo "what was written at $at is lost"; return 1; }
		n=$((n + 1))
		sleep 0.05
	done
	echo "# $n writes of 256 KiB came back"
}
# QEMU answers: ICMP echo, in and out through the queues of the card
network() {
	perl -e '
		my ($name) = map { m,.*/(.*), } glob("/sys/class/net/e*");
		my $in = sub { pack("S n C4 x8", 2, 0, @_) };
		my $if = sub { pack("a16 a16", $name, $_[0]) };
		socket(my $s, 2, 2, 0) or die "socket: $!";
		ioctl($s, 0x8916, $if->($in->(10, 0, 2, 15))) &&
			ioctl($s, 0x891c, $if->($in->(255, 255, 255, 0))) &&
			ioctl($s, 0x8914, $if->(pack("s x14", 0x41))) or
			die "$name: $!";
		socket(my $p, 2, 3, 1) or die "ICMP: $!";
		my $n = 0;
		until (-e "/tmp/end") {
			my $data = pack("n n a*", $$ & 0xffff, $n & 0xffff,
					chr(65 + $n % 26) x 1000);
			my $sum = 0x800;
			$sum += $_ for unpack("n*", $data);
			$sum = ($sum & 0xffff) + ($sum >> 16) for 1, 2;
			send($p, pack("C C n a*", 8, 0, ~$sum & 0xffff, $data), 0,
			     $in->(10, 0, 2, 2)) or die "send: $!";
			my $left = 120;
			while (1) {
				vec(my $r = "", fileno($p), 1) = 1;
				$left -= 1;
				select($r, undef, undef, 1) > 0 or $left > 0 or
					die "no answer to packet $n";
				next unless vec($r, fileno($p), 1);
				recv($p, my $m, 2000, 0);
				last if substr($m, 20, 1) eq chr(0) &&
					substr($m, 24) eq $data;
			}
			$n++;
			select(undef, undef, undef, 0.02);
		}
		print "# $n packets came back\n"'
}
# Core scheduling: two groups of tasks which must not share a core
cores() {
	local pids= nr	# of prctl()

	case $(uname -m) in
	x86_64)	nr=157 ;;
	ppc64*)	nr=171 ;;
	*)	nr=167 ;;
	esac
	for i in 1 2; do
		nice -n 19 perl -e '
			syscall($ARGV[0] + 0, 62, 1, 0, 1, 0) == 0 or
				die "PR_SCHED_CORE_CREATE: $!";
			until (-e "/tmp/end") {
				1 for 1 .. 5000;
				select(undef, undef, undef, 0.05);
			}' $nr &
		pids+=" $!"
	done
	for i in $pids; do
		wait $i || return
	done
	echo "# two cookies"
}
# Receive packet steering: datagrams through lo, whose flows go to CPUs by a mask
# that changes; those that wait for a CPU which goes must not get lost
steering() {
	perl -e '
		my ($seed) = @ARGV;
		my $all = "/sys/class/net/lo/queues/rx-0/rps_cpus";
		my $cpus = () = glob("/sys/devices/system/cpu/cpu[0-9]*");
		srand($seed);
		socket(my $c, 2, 2, 0) or die "socket: $!";
		my $up = pack("a16 s x14", "lo", 0x49);
		ioctl($c, 0x8914, $up) or die "lo: $!";
		my @s = map {
			socket(my $s, 2, 2, 0) or die "socket: $!";
			bind($s, pack("S n C4 x8", 2, 0, 127, 0, 0, 1)) or
				die "bind: $!";
			connect($s, getsockname($s)) or die "connect: $!";
			$s } 1 .. 16;
		my $n = 0;
		until (-e "/tmp/end") {
			open(my $f, ">", $all) or die "$all: $!";
			printf $f "%x\n", 1 + int(rand((1 << $cpus) - 1));
			close($f) or die "$all: $!";
			for my $round (1 .. 4) {
				for (@s) { send($_, "$n $round", 0) or die "send: $!" }
			}
			for my $s (@s) {
				# those that waited for a CPU may come last
				my %left = map { ("$n $_", 1) } 1 .. 4;
				while (%left) {
					vec(my $r = "", fileno($s), 1) = 1;
					select($r, undef, undef, 120) > 0 or
						die "lost: ", join(", ", keys %left);
					recv($s, my $m, 100, 0);
					delete $left{$m} or die "twice: $m";
				}
			}
			$n++;
			select(undef, undef, undef, 0.2);
		}
		print "# $n times 64 datagrams were steered\n"' $SEED
}
# Code that changes, which has no lock of the hotplug core but asks the CPUs to
# synchronize: a function tracer; static keys, which have it
patching() {
	local t=/sys/kernel/tracing n=0

	grep -qs function $t/available_tracers || mount -t tracefs none $t
	while [ ! -e /tmp/end ]; do
		# functions of hotplug, timers and interrupts, some hundred
		echo 'cpuhp_*' '*irq_work*' 'tick_*' 'sched_cpu_*' \
			> $t/set_ftrace_filter &&
			echo function > $t/current_tracer &&
			echo 1 > /proc/sys/kernel/sched_schedstats || return
		sleep 0.05
		echo nop > $t/current_tracer &&
			echo > $t/set_ftrace_filter &&
			echo 0 > /proc/sys/kernel/sched_schedstats || return
		n=$((n + 1))
		# QEMU translates all code on such pages anew
		sleep 3
	done
	echo "# $n times traced"
}
# schedutil comes and goes where there is cpufreq
governors() {
	local p gov

	while [ ! -e /tmp/end ]; do
		for p in $CPU/cpufreq/policy[0-9]*; do
			gov=schedutil
			[ $((RANDOM % 2)) = 0 ] || gov=performance
			# its CPUs may be offline
			[ ! -e $p ] || echo $gov > $p/scaling_governor
		done 2> /dev/null
		sleep 0.5
	done
}
pids=
for i in writer steering patching ${NETWORK:+network} \
	$([ $THREADS = 1 ] || echo cores); do
	$i > /tmp/$i 2>&1 &
	pids+=" $!"
done
governors &
# the guest has no renice
perl -e 'setpriority(0, $_, 19) for @ARGV' $pids $!
(
	cd /lab/kselftest/cpu-hotplug
	FAULTS=$FAULTS LOAD=$LOAD WRITES=$WRITES \
		bash ./stress-test.sh $LASTS $SEED
)
status=$?
touch /tmp/end
for i in $pids; do
	wait $i || status=1
done
cat /tmp/writer /tmp/network /tmp/cores /tmp/steering /tmp/patching 2> /dev/null
[ $status = 0 ] || exit $status
