"""Two hosts on one machine: network namespaces that nothing but a link of limited rate and latency connects.

    with two_hosts(Wire(rate=1e9, latency=1e-3)) as hosts:
        hosts.torchrun(["train.py"], processes=1, seconds=60)      # one torchrun on each host, until both have ended

    host 0  10.214.77.1 | wire ----------- wire | 10.214.77.2  host 1

A namespace has a network of its own: what runs in it reaches the other host over the wire, and nothing else, not even this
machine. The wire is a pair of virtual Ethernet devices whose queues are limited by `tc` (tbf for the rate, netem for a
latency as well). A kernel without netem gets a tunnel instead, and a process that passes its packets on when they are due
(`_wire.py`); that takes a few percent of a core at 1 Gb/s. Processes, devices and namespaces are gone afterwards, whatever
ends the block; namespaces that a killed program left behind are removed by the next one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic, sleep

PREFIX, DEVICE = "graphwright", "wire0"
ADDRESSES = ("10.214.77.1", "10.214.77.2")
PORT = 29500
RELAY = Path(__file__).with_name("_wire.py")


class NoNamespaces(Exception):
    """This machine does not let us make hosts, and why."""


class HostFailed(Exception):
    """A process on a host failed or took too long; with the end of what it printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """What connects the hosts: bits per second each way, and seconds that a packet travels."""

    rate: float
    latency: float = 0.0

    def __str__(self) -> str:
        late = f", {self.latency * 1e3:g} ms" if self.latency else ""
        return f"{self.rate / 1e9:g} Gb/s{late}"


@dataclass(slots=True)
class Hosts:
    """Two hosts and what runs on them."""

    names: tuple[str, str]
    log: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(
        self, host: int, command: Sequence[str], environ: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a program on a host; what it prints goes to a file, of which `tail` is the end."""
        inside = ("ip", "netns", "exec", self.names[host], *command)
        own = {"GLOO_SOCKET_IFNAME": DEVICE, "PYTHONUNBUFFERED": "1", **(environ or {})}
        with self._log(host).open("ab") as log:
            process = subprocess.Popen(
                inside,
                env=os.environ | own,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def start_torchrun(
        self, script: Sequence[str], *, processes: int = 1, environ: Mapping[str, str] | None = None
    ) -> list[subprocess.Popen[bytes]]:
        """Start torchrun on both hosts, with so many processes on each."""
        common = (
            sys.executable, "-m", "torch.distributed.run", "--nnodes", "2",
            "--nproc-per-node", str(processes), "--master-addr", ADDRESSES[0],
            "--master-port", str(PORT),
        )  # fmt: skip
        return [
            self.start(host, (*common, "--node-rank", str(host), *script), environ)
            for host in range(2)
        ]

    def torchrun(
        self,
        script: Sequence[str],
        *,
        processes: int = 1,
        seconds: float = 600.0,
        environ: Mapping[str, str] | None = None,
    ) -> str:
        """Run it to its end on both hosts; what host 0 printed, or HostFailed."""
        for host in range(2):
            self._log(host).unlink(missing_ok=True)
        begun = self.start_torchrun(script, processes=processes, environ=environ)
        deadline = monotonic() + seconds
        while any(process.poll() is None for process in begun):
            if monotonic() > deadline or any(process.poll() for process in begun):
                break
            sleep(0.05)
        failed = [host for host, process in enumerate(begun) if process.poll() not in (None, 0)]
        late = [host for host, process in enumerate(begun) if process.poll() is None]
        if failed or late:
            if failed:
                sleep(1.0)  # the other one may have something to say as well
            self.end(*begun)
            host = (failed or late)[0]
            how = f"failed with status {begun[host].returncode}" if failed else f"ran over {seconds:.0f} s"  # fmt: skip
            raise HostFailed(f"host {host} {how}:\n{self.tail(host)}")
        return self._log(0).read_text("utf-8", "replace")

    def cut(self) -> None:
        """Take the wire down, as if it were pulled out; nobody is told."""
        _ip("-n", self.names[1], "link", "set", DEVICE, "down")

    def end(self, *processes: subprocess.Popen[bytes]) -> None:
        """Kill processes with all that they have started."""
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def kill_host(self, host: int) -> None:
        """End everything that runs on a host at once."""
        listed = subprocess.run(
            ("ip", "netns", "pids", self.names[host]), capture_output=True, text=True, check=False
        )
        for pid in listed.stdout.split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def tail(self, host: int, lines: int = 25) -> str:
        """The last lines that were printed on a host."""
        with suppress(OSError):
            return "\n".join(self._log(host).read_text("utf-8", "replace").splitlines()[-lines:])
        return ""

    def _log(self, host: int) -> Path:
        return self.log / f"host-{host}.log"


@contextmanager
def two_hosts(wire: Wire, folder: Path) -> Iterator[Hosts]:
    """Make two hosts and the wire between them, for as long as the block lasts; logs go to `folder`."""
    _remove_leftovers()
    hosts = Hosts((f"{PREFIX}-{os.getpid()}-0", f"{PREFIX}-{os.getpid()}-1"), folder)
    relay: subprocess.Popen[bytes] | None = None
    with _ended_by_signals():
        try:
            for name in hosts.names:
                _ip("netns", "add", name)
                _ip("-n", name, "link", "set", "lo", "up")
            relay = _connect(hosts, wire)
            yield hosts
        finally:
            hosts.end(*hosts.running)
            if relay is not None:
                hosts.end(relay)
            for name in hosts.names:
                subprocess.run(("ip", "netns", "del", name), capture_output=True, check=False)


def _connect(hosts: Hosts, wire: Wire) -> subprocess.Popen[bytes] | None:
    """Lay the wire; the process that passes packets on, where that is needed."""
    one, other = hosts.names
    relay = None
    _ip("link", "add", DEVICE, "netns", one, "type", "veth", "peer", "name", DEVICE, "netns", other)
    if not all(_limit(name, wire) for name in hosts.names):
        _ip("-n", one, "link", "del", DEVICE)  # both ends of it
        relay = _start_relay(hosts, wire)
    for name, address in zip(hosts.names, ADDRESSES, strict=True):
        _ip("-n", name, "addr", "add", f"{address}/30", "dev", DEVICE)
        _ip("-n", name, "link", "set", DEVICE, "up")
    return relay


def _limit(name: str, wire: Wire) -> bool:
    """Limit what a host sends; False if this kernel cannot."""
    rate = f"{wire.rate:.0f}bit"
    kind: tuple[str, ...] = ("netem", "rate", rate, "delay", f"{wire.latency * 1e6:.0f}us", "limit", "20000")  # fmt: skip
    if not wire.latency:
        burst = max(128 * 1024, int(wire.rate / 8 * 1e-3))  # a millisecond's worth
        kind = ("tbf", "rate", rate, "burst", str(burst), "limit", str(64 << 20))
    command = ("tc", "-n", name, "qdisc", "add", "dev", DEVICE, "root", *kind)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "unknown" not in done.stderr:
        raise NoNamespaces(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.returncode == 0


def _start_relay(hosts: Hosts, wire: Wire) -> subprocess.Popen[bytes]:
    relay = subprocess.Popen(
        (sys.executable, str(RELAY), *hosts.names, DEVICE, str(wire.rate), str(wire.latency)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert relay.stdout is not None
    said = relay.stdout.readline().decode().strip()
    if said != "ready":
        rest = relay.stdout.read().decode().strip().splitlines()
        hosts.end(relay)
        raise NoNamespaces(f"this kernel has no netem, and no tunnel: {(rest or [said])[-1]}")
    return relay


def why_not() -> str | None:
    """Why no hosts can be made on this machine; None if they can."""
    if missing := [tool for tool in ("ip", "tc") if shutil.which(tool) is None]:
        return f"{' and '.join(missing)} not found; they are part of iproute2"
    name = f"{PREFIX}-{os.getpid()}-0"
    try:
        _ip("netns", "add", name)
    except NoNamespaces as error:
        return f"network namespaces are not allowed here: {error}"
    try:
        for verb in ("add", "del"):
            more = ("type", "veth", "peer", "name", "peer0") if verb == "add" else ()
            _ip("-n", name, "link", verb, DEVICE, *more)
    except NoNamespaces as error:
        return f"virtual Ethernet devices are not allowed here: {error}"
    finally:
        subprocess.run(("ip", "netns", "del", name), capture_output=True, check=False)
    return None


def _ip(*arguments: str) -> None:
    done = subprocess.run(("ip", *arguments), capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoNamespaces(f"ip {' '.join(arguments)}: {done.stderr.strip()}")


def _remove_leftovers() -> None:
    """Delete the namespaces of programs that are no more."""
    listed = subprocess.run(("ip", "netns", "list"), capture_output=True, text=True, check=False)
    for line in listed.stdout.splitlines():
        name = line.split()[0]
        words = name.split("-")
        ours = len(words) == 3 and words[0] == PREFIX and words[1].isdigit()
        if ours and not Path(f"/proc/{words[1]}").exists():
            subprocess.run(("ip", "netns", "del", name), capture_output=True, check=False)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does, so that it cleans up."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    try:
        before = {n: signal.signal(n, leave) for n in (signal.SIGTERM, signal.SIGHUP)}
    except ValueError:  # not the main thread
        before = {}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
