"""Java clients of other projects, and the commands of programs that use them.

Needs `java` 17; the jars come from a folder that a variable of the environment names, or once through Maven.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.interop.fetching import fetched

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Jars:
    what: str
    folder: str  # of the cache
    instead: str  # the variable that names another
    programs: Path  # where the pom is, too

    def path(self) -> Path:
        """The folder with the client and what it needs."""
        if libs := os.environ.get(self.instead):
            return Path(libs)
        return fetched(self.folder, [self.programs / "pom.xml"], self._maven, self.what)

    def _maven(self, into: Path) -> list[str]:
        if shutil.which("mvn") is None:
            pytest.skip(f"needs Maven (mvn) to fetch {self.what}, or {self.instead} with its jars")
        return ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={into}"]

    def command(self, program: str, *arguments: str) -> list[str]:
        """Runs one of the programs from its source."""
        if shutil.which("java") is None:
            pytest.skip("needs Java 17 (java)")
        quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        return ["java", *quick, "-cp", f"{self.path()}/*", str(self.programs / program), *arguments]


KAFKA = Jars("Apache Kafka's Java client", "kafka-clients-4.3.1", "KAFKA_LIBS", HERE / "java")
RABBITMQ = Jars("RabbitMQ's Java client", "amqp-client-5.35.0-jms-3.7.0", "RABBITMQ_LIBS", HERE / "amqp" / "java")
AWS_SDK = Jars("the AWS SDK for Java", "aws-sdk-java-2.52.0", "AWS_SDK_LIBS", HERE / "kinesis" / "java")
