#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016,SC2317
# `onehop run`: what it hands the ranks, what it does with their output, and
# how it ends. Numbers of seconds are bounds: SIGKILL comes 2 s after SIGTERM.
. "$(dirname "$0")/../tap.sh"

run=("$BUILD/onehop" run)
# a shell ignores SIGINT and SIGQUIT for what it starts in the background, nohup
# SIGHUP
plainly=(env "--default-signal=INT,QUIT,TERM,HUP")

gone()
{
	local pid

	for pid; do
		# a zombie that nobody has reaped is gone too
		if [[ -e /proc/$pid/stat ]] &&
			! grep -q ') Z ' "/proc/$pid/stat" 2>/dev/null; then
			return 1
		fi
	done
}

# wait_for SECONDS COMMAND...: until the command succeeds
wait_for()
{
	local tenths=$(($1 * 10))

	shift
	while ! "$@" 2>/dev/null; do
		((tenths-- > 0)) || return 1
		sleep 0.1
	done
}

# pids_in DIRECTORY COUNT: true if COUNT files with a process number are there
pids_in()
{
	[[ $(cat "$1"/* 2>/dev/null | wc -w) == "$2" ]]
}

new_directory()
{
	mktemp -d -p "$scratch"
}

# What the ranks are handed
"${run[@]}" -n 3 -- sh -c 'echo out $ONEHOP_RANK of $ONEHOP_RANKS; echo err $ONEHOP_RANK >&2' \
	>"$scratch/out" 2>"$scratch/err"
is $? 0 "all ranks end with 0: exit code 0"
is "$(sort "$scratch/out")" $'[0] out 0 of 3\n[1] out 1 of 3\n[2] out 2 of 3' \
	"stdout: each line with its rank"
is "$(sort "$scratch/err")" $'[0] err 0\n[1] err 1\n[2] err 2' \
	"stderr: each line with its rank"
id_of='echo $ONEHOP_ID'
ids=$("${run[@]}" -n 4 --no-prefix -- sh -c "$id_of" | sort -u)
is "$(wc -l <<<"$ids")" 1 "all ranks have one id"
[[ $ids =~ ^[0-9a-f]{256}$ ]]
ok $? "it has 256 hexadecimal digits"
[[ $("${run[@]}" -n 1 --no-prefix -- sh -c "$id_of") != "$ids" ]]
ok $? "the next run has another id"
is "$(ONEHOP_RANK=9 ONEHOP_RANKS=12 "${run[@]}" -n 1 -- sh -c 'echo $ONEHOP_RANK $ONEHOP_RANKS')" \
	"[0] 0 1" "what the caller's environment says of ranks is replaced"
is "$(echo text | timeout 10 "${run[@]}" -n 1 -- cat)" "" "stdin is empty"
is "$("${run[@]}" -n 1 -- echo -n x --timeout)" "[0] x --timeout" \
	"options after the program are the program's"
is "$("${run[@]}" -n 16 --no-prefix -- sh -c 'echo $ONEHOP_RANK' | sort -n | tr '\n' ' ')" \
	"$(seq -s ' ' 0 15) " "16 ranks"
is "$("${run[@]}" -n 1 --no-prefix -- sh -c 'ls /proc/$$/fd' | tr '\n' ' ')" "$(sh -c 'ls /proc/$$/fd' </dev/null | tr '\n' ' ')" \
	"no descriptor leaks to the ranks"

# Output
head -c 3000000 /dev/urandom >"$scratch/random"
echo >>"$scratch/random"
"${run[@]}" -n 1 -- cat "$scratch/random" | sed 's/^\[0\] //' |
	cmp - "$scratch/random"
ok $? "bytes of any value are passed on"
"${run[@]}" -n 2 --no-prefix -- sh -c "[ \$ONEHOP_RANK = 1 ] || cat $scratch/random" |
	cmp - "$scratch/random"
ok $? "--no-prefix: as they are"
is "$("${run[@]}" -n 1 -- printf 'a\n\nb')" $'[0] a\n[0] \n[0] b' \
	"empty lines and a last line without an end"
"${run[@]}" -n 1 -- printf 'last' | cmp - <(printf '[0] last\n')
ok $? "a last line without an end gets one"
{ head -c 1000000 /dev/zero | tr '\0' x; echo; } >"$scratch/long"
"${run[@]}" -n 1 -- cat "$scratch/long" | sed 's/^\[0\] //' | cmp - "$scratch/long"
ok $? "a line of a million bytes stays one"
"${run[@]}" -n 4 -- sh -c 'yes "$ONEHOP_RANK$(printf %0200d 7)" | head -n 20000' |
	sort | uniq -c | awk '{ print $1, substr($2, 2, 1), substr($3, 1, 1), length($3) }' >"$scratch/counted"
is "$(cat "$scratch/counted")" $'20000 0 0 201\n20000 1 1 201\n20000 2 2 201\n20000 3 3 201' \
	"lines of four busy ranks do not mix"
"${run[@]}" -n 1 -- sh -c 'echo here' >&- 2>"$scratch/err"
is $? 3 "stdout is closed: exit code 3"
has "$(cat "$scratch/err")" "writing to stdout failed" "and a word about it"
timeout 20 "${run[@]}" -n 2 -- yes | head -n 1 >"$scratch/out"
is "${PIPESTATUS[0]}" 141 "the reader has gone: 128 + SIGPIPE"

# A reader that does not read: the ranks wait, memory does not grow, and
# SIGTERM is still heard.
mkfifo "$scratch/fifo"
exec 7<>"$scratch/fifo"
"${run[@]}" -n 2 -- yes >"$scratch/fifo" &
pid=$!
sleep 1
kb=$(awk '/^VmRSS/ { print $2 }' /proc/$pid/status)
# 2 ranks' buffers of 64 KiB and one sink of a few hundred KiB, beside libc
if nm "$BUILD/onehop" | grep -q __asan_; then
	skip "a reader that does not read costs no memory" "AddressSanitizer's own"
else
	[[ -n $kb && $kb -lt 30000 ]]
	ok $? "a reader that does not read costs no memory ($kb kB)"
fi
kill -TERM $pid
sleep 0.5
kill -TERM $pid 2>/dev/null # the second gives up what was not read
wait_for 10 gone $pid
ok $? "and SIGTERM is heard"
wait $pid
is $? 143 "with exit code 143"
exec 7>&-
# One pipe for both outputs, and a reader that takes one page: there is room for
# one of two writes.
both=$(new_directory)
mkfifo "$both/pipe"
exec 7<>"$both/pipe"
"${run[@]}" -n 1 --timeout 3 -- sh -c 'echo $$ >"$0/pid"; yes >&2 & exec yes' "$both" \
	>"$both/pipe" 2>&1 &
pid=$!
sleep 1
dd bs=4096 count=1 <&7 >"$both/page" 2>/dev/null
wait_for 10 gone "$(cat "$both/pid")"
ok $? "stdout and stderr are one pipe: the deadline holds"
kill -TERM $pid
wait_for 10 gone $pid
ok $? "and SIGTERM is heard"
kill -KILL $pid 2>/dev/null
wait $pid
is $? 124 "with exit code 124"
exec 7>&-

# Exit codes
"${run[@]}" -n 3 -- sh -c 'exit $((ONEHOP_RANK == 1 ? 42 : 0))' 2>"$scratch/err"
is $? 42 "a rank's exit code is passed on"
has "$(cat "$scratch/err")" "rank 1 exited with code 42" "the rank is named"
"${run[@]}" -n 3 -- sh -c '
	[ $ONEHOP_RANK = 1 ] && exit 0
	[ $ONEHOP_RANK = 2 ] && sleep 1 && exit 1
	exec sleep 60' 2>"$scratch/err"
is $? 1 "a rank fails after another one has ended with 0"
has "$(cat "$scratch/err")" \
	"rank 2 exited with code 1, ending the others (rank 1 had ended with 0 before)" \
	"which is named too"
"${run[@]}" -n 3 -- sh -c '[ $ONEHOP_RANK != 2 ] || { sleep 1; kill -KILL $$; }' 2>"$scratch/err"
has "$(cat "$scratch/err")" \
	"rank 2 died by signal 9 (SIGKILL) (ranks 0 1 had ended with 0 before)" \
	"all that had ended are named"
"${run[@]}" -n 2 -- sh -c 'kill -SEGV $$' 2>"$scratch/err"
is $? 139 "a rank that died by SIGSEGV: 128 + 11"
has "$(cat "$scratch/err")" "died by signal 11 (SIGSEGV)" "the signal is named"
"${run[@]}" -n 2 -- ./no-such-program 2>"$scratch/err"
is $? 3 "program not found: exit code 3"
has "$(cat "$scratch/err")" "'./no-such-program' was not found" "it is named"
"${run[@]}" -n 2 -- /etc/passwd 2>"$scratch/err"
is $? 3 "program that cannot be run: exit code 3"
has "$(cat "$scratch/err")" "Permission denied" "and why"
# 12 are enough for what is there before the first rank's /dev/null
(ulimit -n 12 && exec "${run[@]}" -n 16 -- true) 2>"$scratch/err"
is $? 3 "too few open files: exit code 3"
has "$(cat "$scratch/err")" "cannot start 'true': Too many open files" "and why"

# The first failure ends all
begin=$SECONDS
"${run[@]}" -n 4 -- sh -c '
	if [ $ONEHOP_RANK = 2 ]; then sleep 0.5; exit 7; fi
	trap "echo ended; exit 1" TERM
	sleep 60 & wait' >"$scratch/out" 2>"$scratch/err"
is $? 7 "the first failure gives the exit code"
[[ $((SECONDS - begin)) -lt 20 ]]
ok $? "and ends the others at once"
is "$(sort "$scratch/out")" $'[0] ended\n[1] ended\n[3] ended' "by SIGTERM"
is "$(grep -c '^onehop run:' "$scratch/err")" 1 "only the first failure is told"
begin=$EPOCHREALTIME
"${run[@]}" -n 2 -- sh -c '
	if [ $ONEHOP_RANK = 1 ]; then sleep 0.5; exit 9; fi
	trap "" TERM
	while :; do sleep 1; done' 2>/dev/null
is $? 9 "a rank that does not heed SIGTERM"
seconds=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
awk -v s="$seconds" 'BEGIN { exit !(s >= 2 && s < 20) }'
ok $? "is killed 2 s later ($seconds s)"
timeout 30 "${run[@]}" -n 2 -- sh -c '
	if [ $ONEHOP_RANK = 1 ]; then sleep 0.5; exit 5; fi
	kill -STOP $$' 2>/dev/null
is $? 5 "a stopped rank is ended too"
begin=$SECONDS
"${run[@]}" -n 3 --timeout 1 -- sh -c '[ $ONEHOP_RANK = 1 ] || exec sleep 60' 2>"$scratch/err"
is $? 124 "--timeout: exit code 124"
[[ $((SECONDS - begin)) -lt 20 ]]
ok $? "at once"
has "$(cat "$scratch/err")" "ending them: 0 2" "the ranks that had not ended are named"

# Signals
for row in INT:130 TERM:143 HUP:129 QUIT:131; do
	signal=${row%:*}
	rm -f "$scratch/out" # or the last turn's lines would be seen
	"${plainly[@]}" "${run[@]}" -n 2 -- sh -c "
		trap 'echo got $signal; exit 0' $signal
		echo ready; while :; do sleep 0.1; done" >"$scratch/out" 2>/dev/null &
	pid=$!
	wait_for 20 eval "[[ \$(grep -c ready $scratch/out) == 2 ]]"
	kill -"$signal" $pid
	wait $pid
	is $? "${row#*:}" "SIG$signal: exit code ${row#*:}"
	is "$(grep -c "got $signal" "$scratch/out")" 2 "SIG$signal reaches the ranks"
done
pids=$(new_directory)
"${plainly[@]}" "${run[@]}" -n 2 -- sh -c "
	trap '' INT; echo \$\$ >$pids/\$ONEHOP_RANK; while :; do sleep 0.1; done" 2>/dev/null &
pid=$!
wait_for 20 pids_in "$pids" 2
begin=$EPOCHREALTIME
kill -INT $pid
sleep 0.3
kill -INT $pid
wait $pid
is $? 130 "a second SIGINT: exit code 130"
awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { exit !(b - a < 1.9) }'
ok $? "kills at once, without the 2 s"
pids=$(new_directory)
(
	trap '' HUP
	exec "${run[@]}" -n 1 -- sh -c "echo \$\$ >$pids/0; sleep 2"
) &
pid=$!
wait_for 20 test -s "$pids/0"
sleep 0.3
kill -HUP $pid
wait $pid
is $? 0 "a SIGHUP that the caller ignores is ignored (nohup)"

# Ctrl-Z, and going on
in_state()
{
	local state=$1 pid

	shift
	for pid; do
		grep -q ") $state " "/proc/$pid/stat" || return 1
	done
}
pids=$(new_directory)
"${run[@]}" -n 2 --timeout 60 -- sh -c "
	echo \$\$ >$pids/\$ONEHOP_RANK; while [ ! -e $pids.go ]; do sleep 0.1; done" &
pid=$!
wait_for 20 pids_in "$pids" 2
read -ra ranks < <(cat "$pids"/* | tr '\n' ' ')
kill -TSTP $pid
wait_for 10 in_state T $pid "${ranks[@]}"
ok $? "SIGTSTP stops the launcher and the ranks"
kill -CONT $pid
touch "$pids.go"
wait_for 10 gone "${ranks[@]}"
ok $? "SIGCONT lets them go on"
wait $pid
is $? 0 "and end as if nothing had been"

# Nobody is left behind
pids=$(new_directory)
"${run[@]}" -n 2 -- sh -c "
	sleep 1000 & echo \$\$ \$! >$pids/\$ONEHOP_RANK; wait" &
pid=$!
wait_for 20 pids_in "$pids" 4
guard=$(pgrep -P $pid -x onehop-guard)
read -ra left < <(cat "$pids"/* | tr '\n' ' ')
kill -KILL $pid
wait $pid 2>/dev/null
wait_for 10 gone "${left[@]}"
ok $? "the launcher is killed: ranks and what they started end"
wait_for 10 gone "$guard"
ok $? "and the guard (process $guard)"

pids=$(new_directory)
"${run[@]}" -n 2 -- sh -c "
	sleep 1000 & echo \$! >$pids/\$ONEHOP_RANK"
is $? 0 "ranks that leave something behind"
read -ra left < <(cat "$pids"/* | tr '\n' ' ')
wait_for 10 gone "${left[@]}"
ok $? "it ends with the run"

pids=$(new_directory)
timeout 60 "${run[@]}" -n 2 -- sh -c "
	setsid sh -c 'echo \$\$ >$pids/\$ONEHOP_RANK; exec sleep 1000' &
	while ! [ -s $pids/\$ONEHOP_RANK ]; do sleep 0.1; done"
is $? 0 "something that left its group and holds the pipe does not keep it"
read -ra left < <(cat "$pids"/* | tr '\n' ' ')
kill "${left[@]}"

# Processors
if [[ $(nproc) -ge 2 ]]; then
	bound=$("${run[@]}" -n 2 --cpu-bind --no-prefix -- \
		awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status | sort -u)
	is "$(wc -l <<<"$bound")" 2 "--cpu-bind: a processor for each rank"
	[[ $bound != *[-,]* ]]
	ok $? "and only one"
else
	skip "--cpu-bind" "there is one processor"
fi
if [[ $(nproc) -lt 16 ]]; then
	"${run[@]}" -n 16 --cpu-bind -- true 2>"$scratch/err"
	is $? 0 "--cpu-bind with more ranks than processors runs all the same"
	has "$(cat "$scratch/err")" "16 ranks, $(nproc) processors" "and says so"
else
	skip "--cpu-bind with too few processors" "there are 16"
fi
done_testing
