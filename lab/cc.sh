#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# cc.sh COMPILER ARGUMENT...: the compiler through ccache, but not for files that
# take in others with .incbin: in its depend mode ccache looks at what the
# preprocessor has read, so it would give back an object with what was in them
# another time.
for file; do
	case $file in
	*.S)
		exec "$@" ;;
	*.c)
		grep -qs incbin "$file" && exec "$@" ;;
	esac
done
exec ccache "$@"
