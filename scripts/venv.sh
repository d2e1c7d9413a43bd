# Sourced by the scripts beside it. Sets ROOT and PYTHON, makes .venv on first use, and goes to the root.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
PYTHON="$ROOT/.venv/bin/python"
cd "$ROOT"

# Open WebUI runs on Python 3.11 and 3.12. A version manager's shim may exist and still refuse to run.
find_python() {
  local candidate
  for candidate in python3.11 python3.12 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.1[12].*/bin/python3 python3; do
    if "$candidate" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)))' \
      2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
  echo "error: Python 3.11 or 3.12 with venv is needed (Debian: apt-get install python3.11-venv)" >&2
  return 1
}

if [[ ! -x "$PYTHON" ]]; then
  found="$(find_python)"
  echo "making .venv with $found"
  "$found" -m venv "$ROOT/.venv"
fi

# Runs a module in the environment, which is brought up to date first.
run() {
  "$PYTHON" -m scripts.environment
  exec "$PYTHON" -m "$@"
}
