"""Apache Kafka's own command-line tools, one step after another on one topic, as an operator would use them.

A step passes when what the tool printed matches. Tools run in a JVM each; `-k` picks steps by a part of their name (a later
step may depend on an earlier one).
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from suites.result import Result
from suites.sources import kafka_jars

TOOLS = "org.apache.kafka.tools"
TOPICS = f"{TOOLS}.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
GROUPS = f"{TOOLS}.consumer.group.ConsumerGroupCommand"
TRANSACTIONS = f"{TOOLS}.TransactionsCommand"
ACLS = f"{TOOLS}.AclCommand"
JVM = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
STEP_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    tool: str
    arguments: str
    expects: str = ""  # a pattern that the output has
    lacks: str = ""  # a pattern that it does not have
    needs: str = ""  # what Headrace does not have yet
    stdin: str = ""


STEPS = [
    # Topics
    Step("create a topic", TOPICS, "--create --topic {t} --partitions 3 --replication-factor 1 --config retention.ms=86400000", "Created topic {t}"),
    Step("list topics", TOPICS, "--list", r"(?m)^{t}$"),
    Step("describe a topic", TOPICS, "--describe --topic {t}", r"PartitionCount: 3\s.*retention\.ms=86400000"),
    Step("create it again", TOPICS, "--create --topic {t}", "already exists"),
    Step("create it if it is not there", TOPICS, "--create --if-not-exists --topic {t}", lacks="(?i)error"),
    Step("add partitions", TOPICS, "--alter --topic {t} --partitions 5", lacks="(?i)error"),
    Step("see the added partitions", TOPICS, "--describe --topic {t}", r"PartitionCount: 5\s"),
    Step("take partitions away", TOPICS, "--alter --topic {t} --partitions 2", "currently has 5 partition"),
    Step("describe an unknown topic", TOPICS, "--describe --topic {t}-x", "does not exist"),
    # Configs
    Step("set a topic config", CONFIGS, "--alter --entity-type topics --entity-name {t} --add-config max.message.bytes=200000", "Completed updating config"),
    Step("see the topic config", CONFIGS, "--describe --entity-type topics --entity-name {t}", "max.message.bytes=200000"),
    Step("remove a topic config", CONFIGS, "--alter --entity-type topics --entity-name {t} --delete-config retention.ms", "Completed updating config"),
    Step("see that the config is gone", CONFIGS, "--describe --entity-type topics --entity-name {t}", "max.message.bytes=200000", lacks="retention.ms"),
    Step("set an unknown config", CONFIGS, "--alter --entity-type topics --entity-name {t} --add-config no.such=1", "(?i)unknown topic config"),
    Step("describe the broker's configs", CONFIGS, "--describe --entity-type brokers --entity-name {node} --all", r"num\.partitions=\d+"),
    Step("set a quota", CONFIGS, "--alter --entity-type clients --entity-name c-{t} --add-config producer_byte_rate=1000000", "Completed updating config", needs="quotas"),
    Step("see the quota", CONFIGS, "--describe --entity-type clients --entity-name c-{t}", "producer_byte_rate=1000000", needs="quotas"),
    # The cluster
    Step("list API versions", f"{TOOLS}.BrokerApiVersionsCommand", "", r"Produce\(0\): 0 to \d+ \[usable: \d+\]"),
    Step("name the cluster", f"{TOOLS}.ClusterTool", "cluster-id {server}", "Cluster ID: "),
    Step("describe features", f"{TOOLS}.FeatureCommand", "{server} describe", "Feature: metadata.version|Feature: "),
    Step("describe the quorum", f"{TOOLS}.MetadataQuorumCommand", "{server} describe --status", "LeaderId:"),
    # Records
    Step("produce from a console", f"{TOOLS}.ConsoleProducer", "--topic {t} --property parse.key=true --property key.separator=:", lacks="(?i)error", stdin="a:1\nb:2\nc:3\n"),
    Step("consume to a console", f"{TOOLS}.consumer.ConsoleConsumer", "--topic {t} --from-beginning --max-messages 3 --property print.key=true --timeout-ms 20000", r"(?s)(?=.*a\t1)(?=.*b\t2)(?=.*c\t3).*Processed a total of 3"),
    Step("produce and verify", f"{TOOLS}.VerifiableProducer", "{server} --topic {t} --max-messages 500 --acks -1", '"acked":500'),
    Step("produce fast and idempotent", f"{TOOLS}.ProducerPerformance", "--topic {t} --num-records 2000 --record-size 100 --throughput -1 --command-property bootstrap.servers={b} enable.idempotence=true compression.type=zstd", r"(?m)^2000 records sent"),
    Step("produce in transactions", f"{TOOLS}.ProducerPerformance", "--topic {t} --num-records 2000 --record-size 100 --throughput -1 --command-property bootstrap.servers={b} --transactional-id tx-{t} --transaction-duration-ms 500", "2000 records sent", needs="transactions"),
    Step("measure the consumer", f"{TOOLS}.ConsumerPerformance", "{server} --topic {t} --num-records 2000 --timeout 20000", r"(?m)^\d{{4}}-\d\d-\d\d .*, \d+,"),
    Step("measure the latency", f"{TOOLS}.EndToEndLatency", "{server} --topic {t}-e2e --num-records 50 --producer-acks 1 --record-size 100", "Avg latency"),
    Step("ask for the last offsets", f"{TOOLS}.GetOffsetShell", "{server} --topic {t} --time -1", r"{t}:\d+:[1-9]\d*"),
    Step("ask for offsets by time", f"{TOOLS}.GetOffsetShell", "{server} --topic {t} --time 1000", r"{t}:\d+:0"),
    # Groups
    Step("consume and verify", f"{TOOLS}.VerifiableConsumer", "{server} --topic {t} --group-id {g} --max-messages 400 --reset-policy earliest", "records_consumed"),
    Step("consume under the new protocol", f"{TOOLS}.VerifiableConsumer", "{server} --topic {t} --group-id {g}-848 --group-protocol consumer --max-messages 400 --reset-policy earliest", "records_consumed", needs="the new group protocol"),
    Step("list groups", GROUPS, "--list", r"(?m)^{g}$"),
    Step("describe a group", GROUPS, "--describe --group {g}", r"{t}\s+\d+\s+\d+\s+\d+"),
    Step("describe its state", GROUPS, "--describe --group {g} --state", r"{g}\s.*Empty"),
    Step("reset its offsets, dry", GROUPS, "--reset-offsets --group {g} --topic {t} --to-latest --dry-run", r"{g}\s+{t}\s+0\s+[1-9]"),
    Step("reset its offsets", GROUPS, "--reset-offsets --group {g} --topic {t} --to-earliest --execute", r"{g}\s+{t}\s+\d+\s+0"),
    Step("shift its offsets", GROUPS, "--reset-offsets --group {g} --topic {t}:0 --shift-by 5 --execute", r"{g}\s+{t}\s+0\s+5"),
    Step("reset them by time", GROUPS, "--reset-offsets --group {g} --topic {t}:0 --to-datetime 2020-01-01T00:00:00.000 --execute", r"{g}\s+{t}\s+0\s+0"),
    Step("delete its offsets", GROUPS, "--delete-offsets --group {g} --topic {t}", r"{t}\s+\d+\s+Successful"),
    Step("delete the group", GROUPS, "--delete --group {g}", "was successful"),
    Step("describe a deleted group", GROUPS, "--describe --group {g}", "Group {g} not found"),
    Step("let a share group start early", CONFIGS, "--alter --entity-type groups --entity-name {g}-share --add-config share.auto.offset.reset=earliest", "Completed updating config", needs="share groups"),
    Step("share a topic", f"{TOOLS}.consumer.ConsoleShareConsumer", "--topic {t} --group {g}-share --max-messages 10 --timeout-ms 20000", "Processed a total of 10", needs="share groups"),
    Step("list share groups", f"{TOOLS}.consumer.group.ShareGroupCommand", "--list", "{g}-share", needs="share groups"),
    # Storage and leadership
    Step("delete records", f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file {folder}/delete.json", r"partition: {t}-0\s+low_watermark: 2"),
    Step("see the log's folders", f"{TOOLS}.LogDirsCommand", "--describe --topic-list {t}", '"partition":"{t}-0"'),
    Step("elect the leader there is", f"{TOOLS}.LeaderElectionCommand", "--election-type preferred --topic {t} --partition 0", "Valid replica already elected"),
    Step("list reassignments", f"{TOOLS}.reassign.ReassignPartitionsCommand", "--list", "No partition reassignments found"),
    Step("describe producers", TRANSACTIONS, "describe-producers --topic {t} --partition 0", "ProducerId"),
    Step("list transactions", TRANSACTIONS, "list", "tx-{t}", needs="transactions"),
    Step("describe a transaction", TRANSACTIONS, "describe --transactional-id tx-{t}", "CompleteCommit|CompleteAbort|Empty", needs="transactions"),
    # Who may do what
    Step("add an ACL", ACLS, "--add --allow-principal User:alice --operation Read --topic {t}", "(?i)adding acls", needs="ACLs"),
    Step("list ACLs", ACLS, "--list --topic {t}", "User:alice", needs="ACLs"),
    Step("remove an ACL", ACLS, "--remove --force --allow-principal User:alice --operation Read --topic {t}", lacks="(?i)error", needs="ACLs"),
    Step("see that it is removed", ACLS, "--list --topic {t}", lacks="User:alice", needs="ACLs"),
    Step("set a password", CONFIGS, "--alter --entity-type users --entity-name u-{t} --add-config SCRAM-SHA-256=[iterations=4096,password=pw]", "Completed updating config", needs="SCRAM"),
    Step("see that there is one", CONFIGS, "--describe --entity-type users --entity-name u-{t}", "SCRAM-SHA-256", needs="SCRAM"),
    # The end
    Step("delete the topic", TOPICS, "--delete --topic {t}", lacks="(?i)error"),
    Step("see that the topic is gone", TOPICS, "--list", lacks=r"(?m)^{t}$"),
]  # fmt: skip


def run(bootstrap: str, pattern: str | None, everything: bool, work: Path) -> Result:
    token = secrets.token_hex(4)
    words = {
        "t": f"cli-{token}",
        "g": f"group-{token}",
        "b": bootstrap,
        "server": f"--bootstrap-server {bootstrap}",
        "node": os.environ.get("BROKER_ID", "0"),
        "folder": str(work),
    }
    deletion = {"version": 1, "partitions": [{"topic": words["t"], "partition": 0, "offset": 2}]}
    (work / "delete.json").write_text(json.dumps(deletion))
    classpath = f"{kafka_jars()}/*"
    result = Result()
    for step in STEPS:
        if pattern and pattern not in step.name:
            continue
        if step.needs and not everything:
            result.skipped.append(step.name)
            continue
        output = launch(step, classpath, words)
        if passes(step, words, output):
            result.passed.append(step.name)
            sys.stdout.write(f"ok {step.name}\n")
        else:
            result.failed[step.name] = " ".join(output.split())[-300:]
            sys.stdout.write(f"FAILED {step.name}\n")
        sys.stdout.flush()
    return result


def launch(step: Step, classpath: str, words: dict[str, str]) -> str:
    server = "" if "{server}" in step.arguments or "bootstrap.servers" in step.arguments else "{server} "
    arguments = shlex.split((server + step.arguments).format(**words))
    try:
        done = subprocess.run(
            ["java", *JVM, "-cp", classpath, step.tool, *arguments],
            input=step.stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired as late:
        return f"(no end after {STEP_TIMEOUT_S} s) {(late.stdout or b'').decode(errors='replace')}"
    return done.stdout


def passes(step: Step, words: dict[str, str], output: str) -> bool:
    if step.expects and not re.search(step.expects.format(**words), output):
        return False
    return not (step.lacks and re.search(step.lacks.format(**words), output))
