# What `tests/run` and `notebooks/start` share: where installed things lie, and how they come there. Sourced, never run.
# The caller has set `me`, the name under which it speaks, and `root`, the folder of the project.

EVCXR=0.22.0
cache=${SPANLIFT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/spanlift}

die() { printf '%s: %s\n' "$me" "$*" >&2; exit 2; }
say() { printf '%s\n' "-- $*"; }
has() { command -v "$1" >/dev/null 2>&1; }

# A Python that can make an environment, the one found first or else the system's.
python() {
    local name
    for name in python3 /usr/bin/python3; do
        "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && { echo "$name"; return; }
    done
    return 1
}

key() { cat "$@" | sha256sum | cut -c 1-12; }

# Where the Rust kernel lies: one for each version of it and of the compiler, whose libraries it loads.
evcxr_folder() { echo "$cache/evcxr-$EVCXR-rustc-$(rustc -vV | sed -n 's/^release: //p')"; }

# Where the environment with the packages of a requirements file lies.
venv_folder() { echo "$cache/$1-$({ python && cat "$2"; } | key)"; }

# One at a time installs $1, `kernel` or `packages`; the others wait and then find it done.
lock_installing() {
    mkdir -p "$cache" || die "cannot write $cache"
    exec 8>"$cache/$1.lock"
    flock -w 3600 8 || die "somebody else has been installing for an hour"
}

unlock_installing() { exec 8>&-; }

# Runs a command that fills the new folder $1, once: an interrupted installation leaves nothing that looks whole.
once() {
    local folder=$1 what=$2
    shift 2
    [[ -f $folder/.complete ]] && return 0
    say "installing $what into $folder"
    rm -rf "$folder"
    mkdir -p "$folder"
    "$@" </dev/null || { rm -rf "$folder"; return 1; }
    touch "$folder/.complete"
}

install_venv() { # folder, requirements
    "$(python)" -m venv "$1" &&
        "$1/bin/pip" install --quiet --disable-pip-version-check --require-virtualenv -r "$2"
}

# Into the folder `evcxr`, which the caller has set.
install_evcxr() {
    local crate unused=()
    # What the kernel takes along mostly for completions in an editor: without optimising it 377 seconds of processor time instead of 443
    # to build all, and cells are as fast.
    for crate in ide ide_assists ide_completion ide_diagnostics ide_ssr; do
        unused+=(--config "profile.release.package.ra_ap_$crate.opt-level=0")
    done
    # `--locked`: the newest dependencies do not compile together. By the profile's own settings it takes 1.4 times the processor time to
    # build (1,317 seconds for 933 on a slow machine); a cell takes 0.05 s more of its second.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=2 CARGO_PROFILE_RELEASE_LTO=off CARGO_TARGET_DIR=$cache/evcxr-build \
        cargo install evcxr_jupyter --version "$EVCXR" --locked --root "$evcxr" --quiet "${unused[@]}"
    local status=$?
    rm -rf "$cache/evcxr-build"
    return $status
}

need_evcxr() {
    lock_installing kernel
    [[ -x $evcxr/bin/evcxr_jupyter ]] ||
        once "$evcxr" "the Rust kernel evcxr_jupyter $EVCXR (five to twelve minutes)" install_evcxr ||
        die "cargo could not install evcxr_jupyter $EVCXR"
}
