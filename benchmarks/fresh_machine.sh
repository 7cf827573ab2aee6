#!/usr/bin/env bash
# Both commands of the README in a fresh environment, with the wall time of each phase.
#
#     benchmarks/fresh_machine.sh              make bench, then make test
#     benchmarks/fresh_machine.sh bench        make bench alone
#
# A clone of the last commit, with HOME, TMPDIR and caches that are empty. Debian packages and what
# the package index serves are as on this machine. As root, `make bench` measures without any
# network. `make test` has the network: tests marked `install` make environments from the index.
set -euo pipefail
what=${1:-both}
repository=$(git -C "$(dirname "${BASH_SOURCE[0]}")" rev-parse --show-toplevel)
work=$(mktemp -d "${TMPDIR:-/tmp}/fresh-XXXXXX")
mkdir "$work/home" "$work/tmp"
git clone --quiet "$repository" "$work/hvdprof"
cd "$work/hvdprof"
export HOME=$work/home TMPDIR=$work/tmp
unset XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME HVDPROF_CACHE_DIR VIRTUAL_ENV PYTHONPATH

report="" failed=0
phase() {
  local name=$1 begin=$SECONDS end=""
  shift
  [ $failed = 0 ] || return 0
  echo "== $name: $*"
  "$@" || { failed=1; end="  failed: $work"; }
  report+=$(printf '%-10s %5d s' "$name" $((SECONDS - begin)))$end$'\n'
}

without_network=()
if [ "$(id -u)" = 0 ]; then
  without_network=(unshare --net sh -c 'ip link set lo up && exec "$@"' sh)
fi

phase packages make .venv/.hvdprof-core
phase compile make .venv/.hvdprof-horovod
phase measuring "${without_network[@]}" make bench
if [ "$what" = both ]; then
  phase tools make setup .venv/.hvdprof-sessions
  phase tests make test
fi
left=$(find "$work/tmp" -mindepth 1 -maxdepth 1 -newer "$work/hvdprof/.git/HEAD" | sort)
printf '\n%s\n%sleft in TMPDIR: %s\n' "$(date -u +%F) $(git rev-parse --short=8 HEAD) $(nproc) cores" \
  "$report" "${left:-nothing}"
[ $failed != 0 ] || { cd / && rm -rf "$work"; }
exit $failed
