#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# compute-sanitizer finds nothing in the kernels: memory that is not theirs,
# races, and barriers that not all threads reach. Ranks are threads of one
# process; they wait for each other while each kernel is many times slower, so
# their deadlines are far off.
. "$(dirname "$0")/tap.sh"

sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
[[ -x $sanitizer ]] || skip_all "compute-sanitizer is not installed"
limit_s=${SANITIZER_LIMIT_S:-300}
export ONEHOP_TEST_DEADLINE_S=$limit_s ONEHOP_TUNE=off ONEHOP_LOG=off

# sanitize TOOL PROGRAM ARGUMENT...
sanitize()
{
	local tool=$1 program=$2 text status output options=()

	shift 2
	text="$tool, $program $*"
	# a stream that is asked whether it is idle may say no
	[[ $tool == memcheck ]] && options=(--report-api-errors no)
	output=$(timeout -k 10 "$limit_s" "$sanitizer" --tool "$tool" \
		"${options[@]}" --error-exitcode 99 --target-processes all \
		"$BUILD/tests/$program" "$@" 2>&1)
	status=$?
	case $output in
	*"Device not supported"* | *"is not supported on this device"*)
		skip "$text" "compute-sanitizer does not work on this machine"
		return
		;;
	*"1..0 # SKIP "*)
		skip "$text" "${output##*1..0 # SKIP }"
		return
		;;
	esac
	ok "$status" "$text"
	((status == 0)) && return
	note "ended with $status (99: something was found, 124: out of time)"
	note "$(tail -n 60 <<<"$output")"
}

for tool in memcheck racecheck synccheck; do
	sanitize "$tool" test_gpu_kernels --row
	# synccheck lets one of its kernels run at a time, which waits then
	[[ $tool == synccheck ]] || sanitize "$tool" test_gpu_random --threads --calls 200
done
done_testing
