. /lab/prelude.sh
t=/sys/kernel/tracing
[ -d $t/events ] || t=/sys/kernel/debug/tracing
echo 1 > $t/events/cpuhp/cpuhp_stopped/enable
for i in 1 2 3 4 5 6; do
	labctl write $CPU/hotplug/offline 1-$((CPUS - 1)) > /dev/null
	labctl write $CPU/hotplug/online all > /dev/null
	labctl write $CPU/cpu1/online 0 > /dev/null
	labctl write $CPU/cpu1/online 1 > /dev/null
done
grep -a stopped $t/trace > /dev/console
