#!/bin/sh
# Makes the environment in .venv from requirements.lock; does nothing where it is up to date.
#
#   ./setup.sh           make or heal .venv (what `make setup` calls)
#   ./setup.sh --which   only print the Python that would be used ("uv" where uv has to bring one)
#
# AFTERIMAGE_VENV and AFTERIMAGE_LOCK name another environment and the lock file it is made from.
# In requirements.lock the Python decides: 3.10 to 3.12 get Spark 3.5, and 3.13, which Spark 3.5
# does not know, gets Spark 4. requirements-spark4.lock has Spark 4 for all of them.
# PYTHON=/path/to/python chooses one. Otherwise the first that fits on PATH is taken, then one of
# pyenv's, then uv's. .venv/.ready says what a finished environment was made from, so a setup that
# was killed, a changed lock file and a moved checkout all lead to a new one.
set -eu

cd "$(dirname "$0")"

VENV=${AFTERIMAGE_VENV:-.venv}
LOCK=${AFTERIMAGE_LOCK:-requirements.lock}
READY=$VENV/.ready

# Of another Python, these would reach into the one that is made here.
unset PYTHONHOME PYTHONPATH PIP_REQUIRE_VIRTUALENV PIP_USER PIP_TARGET PIP_PREFIX
export PIP_DISABLE_PIP_VERSION_CHECK=1

# The oldest versions allowed have nothing for Python 3.13.
case $LOCK in
    requirements-lowest.lock) NEWEST=3.12 KNOWN="3.10, 3.11 or 3.12" ;;
    *) NEWEST=3.13 KNOWN="3.10, 3.11, 3.12 or 3.13" ;;
esac

rejected=

reject() {
    rejected="$rejected
  $1"
}

# A name on PATH proves nothing (pyenv puts shims there that only print an error): a candidate is
# judged by what it answers when it is run.
PROBE='
import os
import sys
version = "%d.%d.%d" % sys.version_info[:3]
newest = tuple(map(int, sys.argv[1].split(".")))
made = [os.path.realpath(folder) for folder in sys.argv[2:]]
if os.path.realpath(sys.prefix) in made:
    print(version + " belongs to the environment that is rebuilt")
elif sys.version_info < (3, 10):
    print(version + " is too old")
elif sys.version_info[:2] > newest:
    print(version + " is too new")
else:
    try:
        import ensurepip
        import venv
        ensurepip.version()
        print("fits")
    except Exception:
        print(version + " lacks venv or ensurepip (on Debian: apt install python%d.%d-venv)" % sys.version_info[:2])
'

# fits CANDIDATE: succeeds where it can make the environment, else remembers why it cannot.
fits() {
    answer=$("$1" -c "$PROBE" "$NEWEST" "$VENV" 2>/dev/null </dev/null) || answer=
    case $answer in
        fits) return 0 ;;
        '')
            # What it says last, in Python's way and in that of most shims, is what is wrong.
            said=$("$1" -c "$PROBE" "$NEWEST" "$VENV" 2>&1 </dev/null) || :
            said=${said##*"
"}
            reject "$1: does not run as Python${said:+: $said}"
            ;;
        *) reject "$1: $answer" ;;
    esac
    return 1
}

# choose: sets `python` to a path, or to "uv".
choose() {
    if [ -n "${PYTHON:-}" ]; then
        python=$(command -v "$PYTHON") || python=$PYTHON
        fits "$python" && return 0
        fail "PYTHON=$PYTHON cannot be used."
    fi
    for name in python3.11 python3.12 python3.10 python3.13 python3 python; do
        # All folders, not the first alone: a broken shim may hide a Python that works.
        rest=$PATH:
        while [ -n "$rest" ]; do
            python=${rest%%:*}/$name
            rest=${rest#*:}
            if [ -f "$python" ] && [ -x "$python" ] && fits "$python"; then return 0; fi
        done
    done
    for version in 3.11 3.12 3.10 3.13; do
        for python in "${PYENV_ROOT:-${HOME:-}/.pyenv}/versions/$version"*/bin/python; do
            if [ -x "$python" ] && fits "$python"; then return 0; fi
        done
    done
    python=uv
    command -v uv >/dev/null && return 0
    fail "No Python $KNOWN found."
}

fail() {
    {
        echo "setup: $1"
        if [ -n "$rejected" ]; then echo "Looked at:$rejected"; fi
        echo "Afterimage needs Python $KNOWN with venv. Do one of these and run it again:"
        echo "  - install one (Debian, Ubuntu: apt install python3 python3-venv; pyenv: pyenv install 3.11)"
        echo "  - name one:   make PYTHON=/path/to/python3.11 setup"
        echo "  - install uv, which brings a Python of its own"
    } >&2
    exit 1
}

# The base of a Python, by which a .venv is known to be made from it.
base_of() {
    "$1" -c 'import os, sys; print(os.path.realpath(sys.base_prefix))' 2>/dev/null
}

pip() {
    "$VENV/bin/python" -m pip -qq "$@" # errors only
}

case ${1:-} in
    --which)
        choose
        echo "$python"
        exit
        ;;
    '') ;;
    *)
        echo "usage: $0 [--which]" >&2
        exit 2
        ;;
esac

here=$(pwd -P)
locked="$here $(cksum <"$LOCK")"
project=$(cat pyproject.toml "$0" | cksum)

# Line 1 identifies the locked packages, line 2 the project itself.
ready=
if [ -f "$READY" ] && "$VENV/bin/python" -c '' 2>/dev/null; then
    ready=$(sed -n 1p "$READY")
    if [ -n "${PYTHON:-}" ] && [ "$(base_of "$PYTHON")" != "$(base_of "$VENV/bin/python")" ]; then
        ready=
    fi
fi
if [ "$ready" = "$locked" ] && [ "$(sed -n 2p "$READY")" = "$project" ]; then
    exit 0
fi

if [ "$ready" != "$locked" ]; then
    choose
    rm -rf "$VENV"
    echo "setup: making $VENV with $python (a few minutes the first time)"
    if [ "$python" = uv ]; then
        uv venv --quiet --python 3.11 --seed "$VENV" || fail "uv could not bring Python 3.11."
    else
        "$python" -m venv "$VENV"
    fi
    # setuptools first: what comes as source is built with the locked one, not with today's newest.
    sed -n '/^setuptools==/,/[^\\]$/p' "$LOCK" >"$VENV/setuptools.lock"
    pip install --require-hashes --no-deps -r "$VENV/setuptools.lock"
    # Most modules are never imported; Python compiles the others when they are.
    pip install --no-compile --require-hashes --no-deps --no-build-isolation --use-pep517 -r "$LOCK"
    echo "$locked" >"$READY"
fi

pip install --no-deps --no-build-isolation --editable .
rm -rf python_udfs/dbt_afterimage.egg-info # The environment has its own copy.
printf '%s\n%s\n' "$locked" "$project" >"$READY"
echo "setup: $VENV is ready ($("$VENV/bin/python" --version))"
