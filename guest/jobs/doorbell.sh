# SPDX-License-Identifier: GPL-2.0
# IPIs to idle siblings, as fast as they are answered, for SECS seconds: reading
# a perf event of a CPU sends it one, a doorbell on pseries. Without
# APPEND="cpuidle.off=1 nowatchdog" a tick or timer may wake up who lost one.
. /lab/prelude.sh
cat > /tmp/ask.pl <<'P'
my ($from, $to, $secs) = map { int } @ARGV;	# syscall() wants numbers
system("taskset -cp $from $$ > /dev/null");
my $attr = pack("L L Q x112", 1, 128, 9);	# PERF_COUNT_SW_DUMMY
# 319 is perf_event_open(2) of powerpc
my $fd = syscall(319, $attr, -1, $to, -1, 0);
open(my $event, "<&=", $fd) or die "perf_event_open: $!";
open(my $count, ">", "/dev/shm/$from");
my ($n, $end) = (0, time + $secs);
while (time < $end) {
	sysread($event, my $x, 8) == 8 or die "read: $!";
	next if ++$n % 100;
	sysseek($count, 0, 0);
	syswrite($count, sprintf("%9d\n", $n));
}
sysseek($count, 0, 0);
syswrite($count, sprintf("%9d end\n", $n));
P
for ((a = 0; a < CPUS; a += 2)); do
	perl /tmp/ask.pl $a $((a + 1)) ${SECS:-100} &
done
sleep 5
mkfifo /tmp/pause
exec 3<> /tmp/pause	# a program of its own might have to wait for such a CPU
declare -A was still
while read -r -t 3 -u 3; [ $? -gt 128 ]; do
	left=0
	for ((a = 0; a < CPUS; a += 2)); do
		read -r n end < /dev/shm/$a || continue
		[ "$end" ] && continue
		left=1
		[ "$n" = "${was[$a]}" ] && : $((still[$a]++)) || still[$a]=0
		was[$a]=$n
		if ((${still[$a]} == 3)); then
			echo "CPU $((a + 1)) does not answer after $n IPIs" > /dev/kmsg
			sleep 1000	# until who reads the registers has done
		fi
	done
	((left)) || break
done
emit ipis n $(cat /dev/shm/* | awk '{ n += $1 } END { print n }')
