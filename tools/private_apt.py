"""A private apt for packages that must not be installed on the system: kernels of other releases, libraries of another architecture. Everything is
kept in one directory; the system's lists, cache and status are neither read nor written. Needs no root."""
import os
import re
import subprocess
from pathlib import Path


def mirror():
    """The Debian mirror that this system uses."""
    sources = [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]
    for source in sources:
        if source.is_file():
            found = re.search(r"https?://\S+/debian(?=/?\s)", source.read_text(errors="replace"))
            if found:
                return found[0]
    return "http://deb.debian.org/debian"


class Apt:
    """A private apt: one suite, its own lists and cache; trusts Debian's archive keys only."""

    def __init__(self, folder, suite, architecture="amd64"):
        for part in ("lists/partial", "archives/partial", "etc/preferences.d", "etc/apt.conf.d"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
        (folder / "sources.list").write_text(f"deb [signed-by={keys}] {mirror()} {suite} main\n")
        (folder / "apt.conf").write_text("\n".join(f'{key} "{value}";' for key, value in {
            "Dir::Etc": folder / "etc", "Dir::Etc::sourcelist": folder / "sources.list", "Dir::Etc::sourceparts": "/dev/null",
            "Dir::Etc::preferences": "/dev/null", "Dir::State": folder, "Dir::State::lists": folder / "lists",
            "Dir::State::status": folder / "status", "Dir::Cache": folder, "Dir::Cache::archives": folder / "archives",
            "APT::Architecture": architecture, "APT::Architectures": architecture, "Acquire::Languages": "none",
            "APT::Sandbox::User": "", "Acquire::Retries": "3", "Debug::NoLocking": "true"}.items()) + "\n")
        self.folder, self.environment = folder, dict(os.environ, APT_CONFIG=str(folder / "apt.conf"), LC_ALL="C.UTF-8")

    def run(self, *command):
        return subprocess.run(list(map(str, command)), env=self.environment, cwd=self.folder / "archives", stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace")

    def update(self):
        done = self.run("apt-get", "-qq", "update")
        return None if done.returncode == 0 else " ".join(done.stderr.split())[-200:]

    def fetch(self, package):
        """The downloaded .deb, or None."""
        for old in (self.folder / "archives").glob(f"{package}_*.deb"):
            old.unlink()
        self.run("apt-get", "-qq", "download", package)
        return next((self.folder / "archives").glob(f"{package}_*.deb"), None)

    def fetch_all(self, packages):
        """The .deb files of the packages and of all their dependencies, or an error message."""
        done = self.run("apt-get", "-qq", "-y", "--no-install-recommends", "--download-only", "install", *packages)
        return list((self.folder / "archives").glob("*.deb")) if done.returncode == 0 else " ".join(done.stderr.split())[-300:]
