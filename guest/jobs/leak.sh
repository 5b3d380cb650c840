# SPDX-License-Identifier: GPL-2.0
# MORE cycles of SMT off and on after 10 must not cost memory. What is left is
# noise of the allocators: pages of partly filled slabs, a page of percpu chunks.
. /lab/prelude.sh
MORE=${MORE-990}

# memory WHEN: what is in use, after all is dropped that is only kept for later
memory() {
	local maps f

	sync
	echo 3 > /proc/sys/vm/drop_caches
	sleep 2
	for f in /sys/kernel/slab/*/shrink; do
		echo 1 > $f
	done
	# what is unpurged has been unmapped
	grep -v unpurged /proc/vmallocinfo > /tmp/vm-$1
	maps=$(grep -vc 'vmalloc\|vmap' /tmp/vm-$1)
	# counters have deltas for each CPU
	echo 1 > /proc/sys/vm/stat_refresh
	cat /proc/zoneinfo > /tmp/zones
	emit memory when $1 ioremaps $maps vmallocs $(wc -l < /tmp/vm-$1) \
		$(awk '$1 == "KernelPageSize:" { kb = $2 }
			$1 == "pages" && $2 == "free" { free += $3 }
			$1 == "count:" { lists += $2 }
			END { print "Free", (free + lists) * kb, "Lists", lists * kb }
			' /proc/self/smaps /tmp/zones) \
		$(awk '/^(Slab|SUnreclaim|VmallocUsed|Percpu|KernelStack):/ {
			sub(":", "", $1); print $1, $2 }' /proc/meminfo)
	awk 'NR > 2 { print $1, $2, $3, $4 }' /proc/slabinfo | sort > /tmp/slab-$1
}

cycles() {
	local i

	for i in $(seq $1); do
		put smt/control off && put smt/control on || return
	done
	want $THREADS
}

more() {
	cycles $((MORE / 4)) || return
	memory quarter
	cycles $((MORE - MORE / 4))
}

result "10 cycles" cycles 10
memory 10
result "$MORE cycles" more
memory more
echo "slab cache, objects in use after 10 and $MORE more cycles:"
join /tmp/slab-10 /tmp/slab-more |
	awk '$5 - $2 > 50 || $2 - $5 > 50 { print $1, $2, $5, "of", $7 }'
# those of freed areas are kept until there are many; vmallocinfo has the rest
objects() {
	join /tmp/slab-10 /tmp/slab-more |
		awk -v most=$((MORE / 2)) '$1 != "vmap_area" && $5 - $2 >= most { print $1, $2, $5; bad = 1 }
			END { exit bad }'
}
result "no object for each cycle" objects
