"""Apache Kafka for tests: a broker of one process on a free port, with a folder of its own.

Its jars come from Maven Central, once (`broker_jars.txt`).
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

from conftest import ROOT
from dbt_afterimage.errors import AfterimageError
from dbt_afterimage.runtime import jars, java

LISTING = Path(__file__).with_name("broker_jars.txt")
FOLDER = ROOT / ".afterimage" / "broker"

# Seconds that something may take which takes a few.
PATIENCE = 90

_SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port},SASL://127.0.0.1:{sasl}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.sasl.plain.sasl.jaas.config=\
org.apache.kafka.common.security.plain.PlainLoginModule required user_reader="{password}";
log.dirs={folder}/data
num.partitions=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
log.retention.ms=-1
message.max.bytes=20000000
log.segment.delete.delay.ms=100
log.retention.check.interval.ms=500
log.cleaner.backoff.ms=200
log.cleaner.dedupe.buffer.size=4000000
log.initial.task.delay.ms=100
"""


def lacking() -> str | None:
    """Return why no broker can run here; none if one can."""
    try:
        jars.fetched(LISTING, FOLDER, os.environ)
    except AfterimageError as error:
        return str(error)
    return None


class Broker:
    """A broker.

    Attributes:
        port: Where it listens.
        sasl: Where it asks for the user `reader` and the password.
    """

    def __init__(self, folder: Path, password: str) -> None:
        self.folder = folder
        self.password = password
        with contextlib.ExitStack() as stack:
            free = [stack.enter_context(socket.socket()) for _ in range(3)]
            for one in free:
                one.bind(("127.0.0.1", 0))
            self.port, self.sasl, controller = (one.getsockname()[1] for one in free)
        self._settings = folder / "server.properties"
        self._settings.write_text(
            _SETTINGS.format(
                port=self.port,
                sasl=self.sasl,
                controller=controller,
                folder=folder,
                password=password,
            )
        )
        identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()
        # An identity that begins with a dash reads as an option.
        identity = identity.replace("-", "x")
        self._run("kafka.tools.StorageTool", "format", "-t", identity, "-c", str(self._settings))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        with (self.folder / "broker.log").open("a") as log:
            self.process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._settings)), stdout=log, stderr=log
            )
        end = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            assert self.process.poll() is None, self._log()
            assert time.monotonic() < end, self._log()
            time.sleep(0.1)

    def stop(self) -> None:
        """End it in good order."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)

    def kill(self) -> None:
        """End it as a broken machine does."""
        self.process.kill()
        self.process.wait(PATIENCE)

    def _command(self, name: str, *arguments: str) -> list[str]:
        path = os.pathsep.join(map(str, jars.fetched(LISTING, FOLDER, os.environ)))
        program = str(java.choose_java(os.environ).home / "bin" / "java")
        return [program, "-Xmx512m", "-cp", path, name, *arguments]

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(self._command(name, *arguments), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    def _log(self) -> str:
        return (self.folder / "broker.log").read_text()[-4000:]


@contextlib.contextmanager
def running_broker(password: str = "none") -> Iterator[Broker]:
    """Start a broker, and remove all of it afterwards.

    Args:
        password: Of the user `reader`.
    """
    folder = Path(tempfile.mkdtemp(prefix="broker-"))
    broker = Broker(folder, password)
    try:
        broker.start()
        yield broker
    finally:
        if broker.process.poll() is None:
            broker.kill()
        shutil.rmtree(folder, ignore_errors=True)


def options_file(path: Path, options: Mapping[str, str]) -> str:
    """Write a file of Kafka's options and return its name."""
    path.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    return str(path)
