// Apache Kafka's own Java client against the server at the given address.
//
//     java -cp 'jars/*' Interop.java HOST:PORT [CHECK...]
//
// Each check prints one line, "=> ok NAME" or "=> failed NAME: why". Every check uses topics and groups of its own.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.admin.TopicDescription;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.ElectionNotNeededException;
import org.apache.kafka.common.errors.FencedInstanceIdException;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.InvalidConfigurationException;
import org.apache.kafka.common.errors.InvalidPartitionsException;
import org.apache.kafka.common.errors.InvalidRequestException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.quota.ClientQuotaFilterComponent;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class Interop {
    static final long DEADLINE_MS = 45_000;
    static String bootstrap;
    static Admin admin;

    interface Check { void run() throws Exception; }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        Set<String> wanted = new HashSet<>(Arrays.asList(arguments).subList(1, arguments.length));
        Map<String, Check> checks = new LinkedHashMap<>();
        for (String compression : List.of("none", "gzip", "snappy", "lz4", "zstd"))
            checks.put("round-trip-" + compression, () -> roundTrip(compression));
        for (String acks : List.of("0", "1", "all")) checks.put("acks-" + acks, () -> acknowledgements(acks));
        checks.put("order", Interop::order);
        checks.put("large-record", Interop::largeRecord);
        checks.put("too-large", Interop::tooLarge);
        checks.put("seek-and-times", Interop::seekAndTimes);
        checks.put("long-poll", Interop::longPoll);
        checks.put("auto-create", Interop::autoCreate);
        checks.put("recreated-topic", Interop::recreatedTopic);
        for (String assignor : List.of("RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor"))
            checks.put("group-" + assignor, () -> group(assignor));
        checks.put("group-crash", Interop::groupCrash);
        checks.put("group-static", Interop::groupStatic);
        checks.put("group-resume", Interop::groupResume);
        checks.put("admin-topics", Interop::adminTopics);
        checks.put("admin-configs", Interop::adminConfigs);
        checks.put("admin-records", Interop::adminRecords);
        checks.put("admin-groups", Interop::adminGroups);
        checks.put("admin-cluster", Interop::adminCluster);
        checks.put("admin-quotas", Interop::adminQuotas);
        checks.put("group-configs", Interop::groupConfigs);
        checks.put("telemetry", Interop::telemetry);

        try (Admin shared = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin = shared;
            for (Map.Entry<String, Check> check : checks.entrySet()) {
                if (!wanted.isEmpty() && !wanted.contains(check.getKey())) continue;
                try {
                    check.getValue().run();
                    System.out.println("\n=> ok " + check.getKey());
                } catch (Throwable failure) {
                    System.out.println("\n=> failed " + check.getKey() + ": " + describe(failure));
                }
            }
        }
    }

    // ---- records

    record Sample(byte[] key, byte[] value, List<Map.Entry<String, byte[]>> headers, long timestamp) {}

    static List<Sample> samples() {
        Random random = new Random(7);
        byte[] noise = new byte[600_000];
        random.nextBytes(noise);
        List<Sample> samples = new ArrayList<>();
        samples.add(new Sample(null, null, List.of(), 1_000));
        samples.add(new Sample(new byte[0], new byte[0], List.of(), 3_000));
        samples.add(new Sample(bytes("k"), null, List.of(header("a", bytes("1")), header("a", bytes("2"))), 2_000));
        samples.add(new Sample(null, bytes("v"), List.of(header("null", null), header("", new byte[0])), 4_000));
        samples.add(new Sample(bytes("large"), noise, List.of(), 5_000));
        samples.add(new Sample(bytes("even"), bytes("abc".repeat(30_000)), List.of(header("ünï", new byte[] {0, -1})), 6_000));
        for (int n = 0; n < 100; n++) {
            byte[] value = new byte[n];
            random.nextBytes(value);
            samples.add(new Sample(bytes("key-" + n), value, List.of(), 10_000 + n));
        }
        return samples;
    }

    static void roundTrip(String compression) throws Exception {
        String topic = topic(1, Map.of("retention.ms", "-1")); // the samples are half a century old
        List<Sample> samples = samples();
        try (var producer = producer(Map.of("compression.type", compression, "linger.ms", 20))) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (Sample sample : samples) {
                var record = new ProducerRecord<>(topic, 0, sample.timestamp, sample.key, sample.value);
                for (var header : sample.headers) record.headers().add(header.getKey(), header.getValue());
                sent.add(producer.send(record));
            }
            for (int n = 0; n < sent.size(); n++) same((long) n, get(sent.get(n)).offset(), "offset");
        }
        try (var consumer = consumer(Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            var records = take(consumer, samples.size());
            for (int n = 0; n < samples.size(); n++) {
                Sample sample = samples.get(n);
                var record = records.get(n);
                check(Arrays.equals(sample.key, record.key()), "key " + n);
                check(Arrays.equals(sample.value, record.value()), "value " + n);
                same(sample.timestamp, record.timestamp(), "timestamp");
                Header[] headers = record.headers().toArray();
                same(sample.headers.size(), headers.length, "headers");
                for (int h = 0; h < headers.length; h++) {
                    same(sample.headers.get(h).getKey(), headers[h].key(), "header name");
                    check(Arrays.equals(sample.headers.get(h).getValue(), headers[h].value()), "header value");
                }
            }
        }
    }

    static void acknowledgements(String acks) throws Exception {
        String topic = topic(1, Map.of());
        produce(topic, 0, 200, Map.of("acks", acks, "enable.idempotence", acks.equals("all")));
        try (var consumer = consumer(Map.of())) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            var records = take(consumer, 200);
            for (int n = 0; n < 200; n++) same(String.valueOf(n), text(records.get(n).value()), "value");
        }
    }

    static void order() throws Exception {
        String topic = topic(3, Map.of());
        try (var producer = producer(Map.of("batch.size", 300, "linger.ms", 0, "max.in.flight.requests.per.connection", 5))) {
            for (int n = 0; n < 3000; n++) producer.send(new ProducerRecord<>(topic, bytes("key-" + n % 31), bytes(String.valueOf(n))));
        }
        try (var consumer = consumer(Map.of("max.partition.fetch.bytes", 4000, "fetch.max.bytes", 9000))) {
            consumer.assign(partitions(topic, 3));
            Map<Integer, Integer> last = new HashMap<>();
            Map<String, Integer> home = new HashMap<>();
            for (var record : take(consumer, 3000)) {
                int value = Integer.parseInt(text(record.value()));
                check(last.getOrDefault(record.partition(), -1) < value, "out of order in partition " + record.partition());
                last.put(record.partition(), value);
                same(home.computeIfAbsent(text(record.key()), key -> record.partition()), record.partition(), "partition of a key");
            }
            same(3, last.size(), "partitions in use");
        }
    }

    static void largeRecord() throws Exception {
        String topic = topic(1, Map.of("max.message.bytes", "9000000"));
        byte[] large = new byte[5_000_000];
        new Random(3).nextBytes(large);
        try (var producer = producer(Map.of("max.request.size", 9_000_000))) {
            get(producer.send(new ProducerRecord<>(topic, large)));
            get(producer.send(new ProducerRecord<>(topic, bytes("after"))));
        }
        try (var consumer = consumer(Map.of("max.partition.fetch.bytes", 1000, "fetch.max.bytes", 1000))) {
            consumer.assign(partitions(topic, 1));
            var records = take(consumer, 2);
            check(Arrays.equals(large, records.get(0).value()), "the large record");
            same("after", text(records.get(1).value()), "the next record");
        }
    }

    static void tooLarge() throws Exception {
        String topic = topic(1, Map.of("max.message.bytes", "1000"));
        byte[] noise = new byte[5000];
        new Random(3).nextBytes(noise);
        try (var producer = producer(Map.of())) {
            fails(RecordTooLargeException.class, producer.send(new ProducerRecord<>(topic, noise)));
            get(producer.send(new ProducerRecord<>(topic, bytes("small"))));
        }
    }

    static void seekAndTimes() throws Exception {
        String topic = topic(1, Map.of());
        TopicPartition partition = new TopicPartition(topic, 0);
        try (var producer = producer(Map.of("batch.size", 200))) {
            for (int n = 0; n < 100; n++)
                producer.send(new ProducerRecord<>(topic, 0, 1_000L * (n + 1), null, bytes(String.valueOf(n))));
        }
        try (var consumer = consumer(Map.of("auto.offset.reset", "none"))) {
            consumer.assign(List.of(partition));
            same(0L, consumer.beginningOffsets(List.of(partition)).get(partition), "beginning");
            same(100L, consumer.endOffsets(List.of(partition)).get(partition), "end");
            var found = consumer.offsetsForTimes(Map.of(partition, 10_500L)).get(partition);
            same(10L, found.offset(), "offset for a time");
            same(11_000L, found.timestamp(), "its time");
            check(consumer.offsetsForTimes(Map.of(partition, 999_999_999L)).get(partition) == null, "no offset after the end");
            for (long target : new long[] {60, 3, 99}) {
                consumer.seek(partition, target);
                same(target, take(consumer, 1).get(0).offset(), "seek");
            }
            consumer.seek(partition, 5000);
            try {
                long end = System.currentTimeMillis() + DEADLINE_MS;
                while (System.currentTimeMillis() < end) consumer.poll(Duration.ofMillis(200));
                throw new AssertionError("an offset out of range was no error");
            } catch (OffsetOutOfRangeException expected) {
                same(Set.of(partition), expected.partitions(), "partitions out of range");
            }
            consumer.seekToEnd(List.of(partition));
            same(100L, consumer.position(partition), "the end");
            produce(topic, 0, 1, Map.of());
            same(100L, take(consumer, 1).get(0).offset(), "read from the end");
        }
    }

    static void longPoll() throws Exception {
        String topic = topic(1, Map.of());
        var consumer = consumer(Map.of("fetch.max.wait.ms", 200_000, "request.timeout.ms", 300_000));
        try {
            consumer.assign(partitions(topic, 1));
            consumer.poll(Duration.ofMillis(300));
            produce(topic, 0, 1, Map.of());
            same("0", text(take(consumer, 1).get(0).value()), "value");
        } finally {
            consumer.close(CloseOptions.timeout(Duration.ZERO)); // or it would wait for the fetch under way
        }
    }

    static void autoCreate() throws Exception {
        String topic = "auto-" + UUID.randomUUID();
        produce(topic, 0, 1, Map.of());
        same(4, describeTopic(topic).partitions().size(), "partitions");
        admin.deleteTopics(List.of(topic)).all().get();
        String absent = "absent-" + UUID.randomUUID();
        try (var consumer = consumer(Map.of("allow.auto.create.topics", false))) {
            consumer.subscribe(List.of(absent));
            consumer.poll(Duration.ofMillis(500));
        }
        check(!admin.listTopics().names().get().contains(absent), "a subscription created a topic");
    }

    static void recreatedTopic() throws Exception {
        String topic = topic(1, Map.of());
        produce(topic, 0, 50, Map.of());
        try (var consumer = consumer(Map.of("metadata.max.age.ms", 500, "allow.auto.create.topics", false))) {
            consumer.subscribe(List.of(topic));
            take(consumer, 50);
            Uuid before = describeTopic(topic).topicId();
            admin.deleteTopics(List.of(topic)).all().get();
            until(() -> { consumer.poll(Duration.ofMillis(100)); return !names().contains(topic); }, "the topic is gone");
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            check(!describeTopic(topic).topicId().equals(before), "a new topic has a new id");
            produce(topic, 0, 3, Map.of());
            var records = take(consumer, 3);
            same(List.of(0L, 1L, 2L), records.stream().map(ConsumerRecord::offset).toList(), "offsets of the new topic");
        }
    }

    // ---- groups

    static class Member implements ConsumerRebalanceListener {
        final KafkaConsumer<byte[], byte[]> consumer;
        final List<Integer> revoked = new ArrayList<>();
        final List<String> seen = new ArrayList<>();
        boolean closed;

        Member(String group, String topic, Map<String, Object> more) {
            Map<String, Object> config = new HashMap<>(Map.of("group.id", group, "heartbeat.interval.ms", 300, "fetch.max.wait.ms", 50));
            config.putAll(more);
            consumer = consumer(config);
            consumer.subscribe(List.of(topic), this);
        }

        public void onPartitionsRevoked(Collection<TopicPartition> partitions) { revoked.add(partitions.size()); }

        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {}

        void poll() {
            for (var record : consumer.poll(Duration.ofMillis(30))) seen.add(record.partition() + "-" + record.offset());
        }

        int size() { return consumer.assignment().size(); }

        void close(CloseOptions how) {
            if (!closed) consumer.close(how.withTimeout(Duration.ofSeconds(10)));
            closed = true;
        }

        void leave() { close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.DEFAULT)); }

        /** Ends without a word to the coordinator, as a killed process does. */
        void vanish() { close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP)); }
    }

    static void settle(List<Member> members, BooleanSupplier done, String what) {
        until(() -> { members.forEach(Member::poll); return done.getAsBoolean(); }, what);
    }

    static boolean sizes(List<Member> members, int... expected) {
        int[] actual = members.stream().mapToInt(Member::size).sorted().toArray();
        return Arrays.equals(actual, expected);
    }

    static void group(String assignor) throws Exception {
        String topic = topic(6, Map.of());
        String group = "group-" + UUID.randomUUID();
        Map<String, Object> config = Map.of("partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor);
        Member first = new Member(group, topic, config);
        settle(List.of(first), () -> first.size() == 6, "one member owns all");
        Member second = new Member(group, topic, config);
        settle(List.of(first, second), () -> sizes(List.of(first, second), 3, 3), "two share");
        Member third = new Member(group, topic, config);
        List<Member> all = List.of(first, second, third);
        settle(all, () -> sizes(all, 2, 2, 2), "three share");
        for (int partition = 0; partition < 6; partition++) produce(topic, partition, 10, Map.of());
        settle(all, () -> all.stream().mapToInt(member -> member.seen.size()).sum() >= 60, "everything is read");
        Set<String> distinct = all.stream().flatMap(member -> member.seen.stream()).collect(Collectors.toSet());
        same(60, distinct.size(), "records read");
        first.leave();
        settle(List.of(second, third), () -> sizes(List.of(second, third), 3, 3), "the one that left has handed over");
        if (assignor.startsWith("Cooperative")) check(second.revoked.stream().allMatch(count -> count <= 1), "gave back too much");
        second.leave();
        third.leave();
    }

    static void groupCrash() throws Exception {
        String topic = topic(4, Map.of());
        String group = "group-" + UUID.randomUUID();
        Map<String, Object> config = Map.of("session.timeout.ms", 2000);
        Member doomed = new Member(group, topic, config);
        Member survivor = new Member(group, topic, config);
        settle(List.of(doomed, survivor), () -> sizes(List.of(doomed, survivor), 2, 2), "two share");
        doomed.vanish();
        settle(List.of(survivor), () -> survivor.size() == 4, "the survivor takes over");
        survivor.leave();
    }

    static void groupStatic() throws Exception {
        String topic = topic(4, Map.of());
        String group = "group-" + UUID.randomUUID();
        Member steady = new Member(group, topic, Map.of("group.instance.id", "steady"));
        Member restless = new Member(group, topic, Map.of("group.instance.id", "restless"));
        settle(List.of(steady, restless), () -> sizes(List.of(steady, restless), 2, 2), "two share");
        var before = restless.consumer.assignment();
        int revoked = steady.revoked.size();
        restless.leave(); // a static member only says good-bye to its session (KIP-345)
        Member back = new Member(group, topic, Map.of("group.instance.id", "restless"));
        settle(List.of(steady, back), () -> back.size() == 2, "it is back");
        same(before, back.consumer.assignment(), "partitions of the static member");
        same(revoked, steady.revoked.size(), "rebalances of the other");
        Member twin = new Member(group, topic, Map.of("group.instance.id", "restless"));
        try {
            settle(List.of(steady, twin, back), () -> false, "the first of two twins is fenced");
        } catch (FencedInstanceIdException expected) {
            // as it should be
        }
        admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("restless"))))
                .all().get();
        settle(List.of(steady), () -> steady.size() == 4, "the removed member's partitions move");
        for (Member member : List.of(steady, back, twin)) member.vanish();
    }

    static void groupResume() throws Exception {
        String topic = topic(1, Map.of());
        TopicPartition partition = new TopicPartition(topic, 0);
        String group = "group-" + UUID.randomUUID();
        produce(topic, 0, 100, Map.of());
        Member first = new Member(group, topic, Map.of("max.poll.records", 10));
        settle(List.of(first), () -> first.seen.size() >= 40, "forty are read");
        first.consumer.commitSync(Map.of(partition, new OffsetAndMetadata(40, "half way")));
        var committed = first.consumer.committed(Set.of(partition)).get(partition);
        same(40L, committed.offset(), "committed");
        same("half way", committed.metadata(), "metadata");
        first.leave();
        Member second = new Member(group, topic, Map.of());
        settle(List.of(second), () -> second.seen.size() >= 60, "the rest is read");
        same("0-40", second.seen.get(0), "first record after the commit");
        second.leave();
    }

    // ---- admin

    static void adminTopics() throws Exception {
        String name = "made-" + UUID.randomUUID();
        var created = admin.createTopics(List.of(new NewTopic(name, 3, (short) 1).configs(Map.of("retention.ms", "100000"))));
        same(3, created.numPartitions(name).get(), "partitions");
        same("100000", created.config(name).get().get("retention.ms").value(), "config");
        Uuid id = created.topicId(name).get();
        fails(TopicExistsException.class, admin.createTopics(List.of(new NewTopic(name, 3, (short) 1))).all());
        same(id, describeTopic(name).topicId(), "topic id");
        TopicDescription byId = admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).topicIdValues().get(id).get();
        same(name, byId.name(), "name by id");
        admin.createPartitions(Map.of(name, NewPartitions.increaseTo(6))).all().get();
        until(() -> describeTopic(name).partitions().size() == 6, "six partitions");
        fails(InvalidPartitionsException.class, admin.createPartitions(Map.of(name, NewPartitions.increaseTo(2))).all());
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
        until(() -> !names().contains(name), "the topic is gone");
        fails(UnknownTopicOrPartitionException.class, admin.deleteTopics(List.of(name)).all());
    }

    static void adminConfigs() throws Exception {
        String topic = topic(1, Map.of("retention.ms", "100000"));
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(
                new AlterConfigOp(new ConfigEntry("max.message.bytes", "5000"), AlterConfigOp.OpType.SET),
                new AlterConfigOp(new ConfigEntry("retention.ms", null), AlterConfigOp.OpType.DELETE),
                new AlterConfigOp(new ConfigEntry("cleanup.policy", "compact"), AlterConfigOp.OpType.APPEND)))).all().get();
        until(() -> config(resource).get("max.message.bytes").value().equals("5000"), "the change is seen");
        var config = config(resource);
        same(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, config.get("max.message.bytes").source(), "source");
        same(ConfigEntry.ConfigSource.DEFAULT_CONFIG, config.get("retention.ms").source(), "source of a default");
        same(Set.of("delete", "compact"), Set.of(config.get("cleanup.policy").value().split(",")), "appended");
        fails(InvalidConfigurationException.class, admin.incrementalAlterConfigs(Map.of(resource, List.of(
                new AlterConfigOp(new ConfigEntry("retention.ms", "soon"), AlterConfigOp.OpType.SET)))).all());
    }

    static void adminRecords() throws Exception {
        String topic = topic(1, Map.of());
        TopicPartition partition = new TopicPartition(topic, 0);
        try (var producer = producer(Map.of())) {
            for (int n = 0; n < 50; n++)
                get(producer.send(new ProducerRecord<>(topic, 0, n == 20 ? 900_000L : 1_000L * (n + 1), null, bytes("x"))));
        }
        same(0L, offset(partition, OffsetSpec.earliest()), "earliest");
        same(50L, offset(partition, OffsetSpec.latest()), "latest");
        same(20L, offset(partition, OffsetSpec.maxTimestamp()), "max timestamp");
        same(10L, offset(partition, OffsetSpec.forTimestamp(10_500)), "by time");
        same(0L, offset(partition, OffsetSpec.earliestLocal()), "earliest local");
        same(30L, admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(30))).lowWatermarks().get(partition).get().lowWatermark(), "low watermark");
        same(30L, offset(partition, OffsetSpec.earliest()), "earliest after deletion");
        var producers = admin.describeProducers(List.of(partition)).partitionResult(partition).get();
        same(1, producers.activeProducers().size(), "producers");
        var dirs = admin.describeLogDirs(List.of(describeTopic(topic).partitions().get(0).leader().id())).allDescriptions().get();
        check(dirs.values().stream().flatMap(dir -> dir.values().stream()).anyMatch(dir -> dir.replicaInfos().containsKey(partition)), "log dirs");
        fails(ElectionNotNeededException.class, admin.electLeaders(ElectionType.PREFERRED, Set.of(partition)).all());
        same(Map.of(), admin.listPartitionReassignments().reassignments().get(), "reassignments");
    }

    static void adminGroups() throws Exception {
        String topic = topic(2, Map.of());
        String group = "group-" + UUID.randomUUID();
        TopicPartition zero = new TopicPartition(topic, 0);
        TopicPartition one = new TopicPartition(topic, 1);
        Member member = new Member(group, topic, Map.of("client.id", "the-member"));
        settle(List.of(member), () -> member.size() == 2, "it owns all");
        member.consumer.commitSync(Map.of(zero, new OffsetAndMetadata(4), one, new OffsetAndMetadata(0)));
        check(admin.listGroups().all().get().stream().anyMatch(listing -> listing.groupId().equals(group)), "listed");
        ConsumerGroupDescription described = admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
        same(GroupState.STABLE, described.groupState(), "state");
        var only = described.members().iterator().next();
        same("the-member", only.clientId(), "client id");
        same(Set.of(zero, one), only.assignment().topicPartitions(), "assignment");
        same("consumer", admin.describeClassicGroups(List.of(group)).describedGroups().get(group).get().protocol(), "protocol type");
        fails(GroupNotEmptyException.class, admin.deleteConsumerGroups(List.of(group)).all());
        member.leave();
        same(4L, committed(group).get(zero).offset(), "committed");
        admin.alterConsumerGroupOffsets(group, Map.of(zero, new OffsetAndMetadata(9, "moved"))).all().get();
        same(9L, committed(group).get(zero).offset(), "altered");
        same("moved", committed(group).get(zero).metadata(), "altered metadata");
        admin.deleteConsumerGroupOffsets(group, Set.of(zero)).all().get();
        check(committed(group).get(zero) == null, "deleted offset");
        admin.deleteConsumerGroups(List.of(group)).all().get();
        fails(GroupIdNotFoundException.class, admin.deleteConsumerGroups(List.of(group)).all());
        fails(GroupIdNotFoundException.class, admin.describeConsumerGroups(List.of(group)).all());
    }

    static void adminCluster() throws Exception {
        var cluster = admin.describeCluster();
        check(!cluster.clusterId().get().isEmpty(), "cluster id");
        same(1, cluster.nodes().get().size(), "nodes");
        String node = cluster.controller().get().idString();
        same(node, cluster.nodes().get().iterator().next().idString(), "controller");
        same("4", config(new ConfigResource(ConfigResource.Type.BROKER, node)).get("num.partitions").value(), "num.partitions");
        admin.describeFeatures().featureMetadata().get();
    }

    static void adminQuotas() throws Exception {
        String client = "client-" + UUID.randomUUID();
        var entity = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, client));
        quota(entity, "producer_byte_rate", 10_000.0);
        fails(InvalidRequestException.class, admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
                List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 1.5))))).all());
        var found = admin.describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(
                ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.CLIENT_ID, client)))).entities().get();
        same(Map.of(entity, Map.of("producer_byte_rate", 10_000.0)), found, "quotas");
        // Ten seconds' worth may come at once; what is beyond makes the producer pause.
        String topic = topic(1, Map.of());
        try (var producer = producer(Map.of("client.id", client, "batch.size", 16_000, "linger.ms", 50))) {
            for (int n = 0; n < 115; n++) producer.send(new ProducerRecord<>(topic, new byte[1000]));
            producer.flush();
            double longest = producer.metrics().entrySet().stream()
                    .filter(metric -> metric.getKey().name().equals("produce-throttle-time-max"))
                    .mapToDouble(metric -> (Double) metric.getValue().metricValue()).max().orElse(0);
            check(longest > 0, "the producer was not told to pause");
        }
        quota(entity, "producer_byte_rate", null);
        check(!admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().containsKey(entity), "removed");
    }

    static void quota(ClientQuotaEntity entity, String name, Double value) throws Exception {
        get(admin.alterClientQuotas(List.of(new ClientQuotaAlteration(entity,
                List.of(new ClientQuotaAlteration.Op(name, value))))).all());
    }

    static void groupConfigs() throws Exception {
        var group = new ConfigResource(ConfigResource.Type.GROUP, "group-" + UUID.randomUUID());
        same("45000", config(group).get("consumer.session.timeout.ms").value(), "default");
        set(group, "consumer.session.timeout.ms", "50000");
        same("50000", config(group).get("consumer.session.timeout.ms").value(), "set");
        same(ConfigEntry.ConfigSource.DYNAMIC_GROUP_CONFIG, config(group).get("consumer.session.timeout.ms").source(), "source");
        fails(InvalidConfigurationException.class, admin.incrementalAlterConfigs(Map.of(group, List.of(new AlterConfigOp(
                new ConfigEntry("consumer.session.timeout.ms", "1"), AlterConfigOp.OpType.SET)))).all());
        check(admin.listConfigResources().all().get().contains(group), "listed");
    }

    static void telemetry() throws Exception {
        var subscription = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "metrics-" + UUID.randomUUID());
        String client = "client-" + UUID.randomUUID();
        set(subscription, "metrics", "*");
        set(subscription, "interval.ms", "100");
        set(subscription, "match", "client_id=" + client + ",client_software_name=apache-kafka-java");
        try (var producer = producer(Map.of("client.id", client))) {
            check(producer.clientInstanceId(Duration.ofMillis(DEADLINE_MS)) != null, "an id of this instance");
        }
        get(admin.incrementalAlterConfigs(Map.of(subscription, List.of("metrics", "interval.ms", "match").stream()
                .map(name -> new AlterConfigOp(new ConfigEntry(name, ""), AlterConfigOp.OpType.DELETE)).toList())).all());
        check(!admin.listConfigResources().all().get().contains(subscription), "removed");
    }

    static void set(ConfigResource resource, String name, String value) throws Exception {
        var change = new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET);
        get(admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all());
    }

    // ---- what the checks are made of

    static KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        config.putAll(more);
        return new KafkaProducer<>(config, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(Map.of(
                "bootstrap.servers", bootstrap, "auto.offset.reset", "earliest", "enable.auto.commit", false,
                "group.id", "group-" + UUID.randomUUID(), "fetch.max.wait.ms", 100));
        config.putAll(more);
        return new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static void produce(String topic, int partition, int count, Map<String, Object> config) throws Exception {
        try (var producer = producer(config)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int n = 0; n < count; n++) sent.add(producer.send(new ProducerRecord<>(topic, partition, null, bytes(String.valueOf(n)))));
            for (var future : sent) get(future);
        }
    }

    static List<ConsumerRecord<byte[], byte[]>> take(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        until(() -> { consumer.poll(Duration.ofMillis(200)).forEach(records::add); return records.size() >= count; }, count + " records");
        return records;
    }

    static String topic(int partitions, Map<String, String> config) throws Exception {
        String name = "java-" + UUID.randomUUID();
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(config))).all().get();
        return name;
    }

    static TopicDescription describeTopic(String topic) {
        long end = System.currentTimeMillis() + DEADLINE_MS;
        while (true) {
            try {
                return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            } catch (ExecutionException late) { // created, and not known to every broker yet
                if (!(late.getCause() instanceof UnknownTopicOrPartitionException) || System.currentTimeMillis() > end)
                    throw new AssertionError(late.getCause());
            } catch (InterruptedException interrupted) {
                throw new AssertionError(interrupted);
            }
        }
    }

    static Set<String> names() {
        try {
            return admin.listTopics().names().get();
        } catch (Exception failure) {
            throw new AssertionError(failure);
        }
    }

    static Map<String, ConfigEntry> config(ConfigResource resource) {
        try {
            return admin.describeConfigs(List.of(resource)).all().get().get(resource).entries().stream()
                    .collect(Collectors.toMap(ConfigEntry::name, entry -> entry));
        } catch (Exception failure) {
            throw new AssertionError(failure);
        }
    }

    static long offset(TopicPartition partition, OffsetSpec rule) throws Exception {
        return admin.listOffsets(Map.of(partition, rule)).partitionResult(partition).get().offset();
    }

    static Map<TopicPartition, OffsetAndMetadata> committed(String group) throws Exception {
        return admin.listConsumerGroupOffsets(Map.of(group, new ListConsumerGroupOffsetsSpec())).partitionsToOffsetAndMetadata(group).get();
    }

    static List<TopicPartition> partitions(String topic, int count) {
        return IntStream.range(0, count).mapToObj(n -> new TopicPartition(topic, n)).toList();
    }

    static <T> T get(Future<T> future) throws Exception { return future.get(DEADLINE_MS, TimeUnit.MILLISECONDS); }

    static byte[] bytes(String text) { return text.getBytes(StandardCharsets.UTF_8); }

    static String text(byte[] bytes) { return new String(bytes, StandardCharsets.UTF_8); }

    static Map.Entry<String, byte[]> header(String name, byte[] value) { return new java.util.AbstractMap.SimpleEntry<>(name, value); }

    static void until(BooleanSupplier done, String what) {
        long end = System.currentTimeMillis() + DEADLINE_MS;
        while (!done.getAsBoolean()) check(System.currentTimeMillis() < end, "waited in vain: " + what);
    }

    static void check(boolean holds, String what) { if (!holds) throw new AssertionError(what); }

    static void same(Object expected, Object actual, String what) {
        check(Objects.equals(expected, actual), what + ": expected " + expected + ", got " + actual);
    }

    static void fails(Class<? extends Exception> kind, Future<?> future) throws Exception {
        try {
            get(future);
        } catch (ExecutionException failure) {
            check(kind.isInstance(failure.getCause()), "expected " + kind.getSimpleName() + ", got " + failure.getCause());
            return;
        }
        throw new AssertionError("expected " + kind.getSimpleName() + ", got no error");
    }

    static String describe(Throwable failure) {
        String at = Arrays.stream(failure.getStackTrace()).filter(frame -> frame.getClassName().startsWith("Interop"))
                .limit(4).map(frame -> frame.getMethodName() + ":" + frame.getLineNumber()).collect(Collectors.joining(" < "));
        return (failure + " at " + at).replace('\n', ' ');
    }
}
