"""A real standalone Spark cluster on this machine, from the installed PySpark."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pyspark

from command_line import environment

HOME = Path(pyspark.__file__).parent


class StandaloneCluster:
    """A master and workers, each in a process of its own.

    Attributes:
        url: What `SPARK_MASTER` is to be.
        workers: The process ids of the workers.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._env = environment(
            SPARK_HOME=str(HOME), SPARK_LOCAL_IP="127.0.0.1", SPARK_DAEMON_MEMORY="256m"
        )
        self._processes: list[subprocess.Popen[bytes]] = []
        self.workers: list[int] = []
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        self._start("Master", "master", "I have been elected leader", "--port", str(port))

    def add_worker(self, *, cores: int = 1, memory: str = "1g", **variables: str) -> None:
        """Start a worker, and come back once the master knows it."""
        name = f"worker{len(self.workers) + 1}"
        worker = self._start(
            "Worker",
            name,
            "Successfully registered with master",
            *("--cores", str(cores), "--memory", memory),
            *("--work-dir", str(self.folder / name), self.url),
            **variables,
        )
        self.workers.append(worker)

    def log(self, name: str) -> str:
        """Return what a process has logged: `master`, `worker1`, `worker2`, …"""
        return (self.folder / f"{name}.log").read_text()

    def stop(self) -> None:
        """End every process; workers first, for they end their executors."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def application_environment(self, **variables: str) -> dict[str, str]:
        """Return the environment of a dbt process whose Spark runs here."""
        return environment(
            SPARK_MASTER=self.url,
            SPARK_LOCAL_IP="127.0.0.1",
            **{"PYSPARK_PYTHON": sys.executable, **variables},
        )

    def _start(self, kind: str, name: str, ready: str, *arguments: str, **variables: str) -> int:
        log = self.folder / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [
                    HOME / "bin" / "spark-class",
                    f"org.apache.spark.deploy.{kind.lower()}.{kind}",
                    *("--host", "127.0.0.1", "--webui-port", "0"),
                    *arguments,
                ],
                cwd=self.folder,
                env=self._env | variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # Leader of a session of its own, to be ended with all that it has started.
                start_new_session=True,
            )
        self._processes.append(process)
        deadline = time.monotonic() + 60
        while ready not in log.read_text():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        return process.pid


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
    return port
