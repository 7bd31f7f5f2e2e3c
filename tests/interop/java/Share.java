// Share groups (KIP-932) as Apache Kafka's own KafkaShareConsumer uses them, against the server at the given address.
//
//     java -cp 'jars/*' Share.java HOST:PORT [CHECK...]
//
// Each check prints one line, "=> ok NAME" or "=> failed NAME: why". The server must allow locks of one second
// (group.share.min.record.lock.duration.ms=1000).

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.InvalidRecordStateException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Share {
    static final long DEADLINE_MS = 30_000;
    static String bootstrap;
    static Admin admin;

    interface Check { void run() throws Exception; }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        Set<String> wanted = new HashSet<>(Arrays.asList(arguments).subList(1, arguments.length));
        Map<String, Check> checks = new LinkedHashMap<>();
        checks.put("pool", Share::pool);
        checks.put("acknowledge", Share::acknowledge);
        checks.put("delivery-limit", Share::deliveryLimit);
        checks.put("lock-timeout", Share::lockTimeout);
        checks.put("renew", Share::renew);
        checks.put("record-limit", Share::recordLimit);
        checks.put("begin-latest", Share::beginLatest);
        checks.put("read-committed", Share::readCommitted);
        checks.put("close-releases", Share::closeReleases);
        checks.put("admin", Share::administration);
        checks.put("dead-letters", Share::deadLetters);

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

    /** Three members of one group, more than partitions: together they get each record once. */
    static void pool() throws Exception {
        String topic = topic(2), group = group(Map.of("share.auto.offset.reset", "earliest"));
        produce(topic, 0, 600);
        List<String> got = new ArrayList<>();
        var members = List.of(consumer(group, Map.of()), consumer(group, Map.of()), consumer(group, Map.of()));
        try {
            for (var member : members) member.subscribe(List.of(topic));
            until(() -> {
                for (var member : members) member.poll(Duration.ofMillis(50)).forEach(record -> got.add(record.value()));
                return got.size() >= 600;
            }, "600 records");
            for (var member : members) member.commitSync();
            same(600, new HashSet<>(got).size(), "different records");
            same(600, got.size(), "records");
        } finally {
            for (var member : members) member.close();
        }
    }

    /** Accepted is gone, released comes again with a higher count, rejected is gone. */
    static void acknowledge() throws Exception {
        String topic = topic(1), group = group(Map.of("share.auto.offset.reset", "earliest"));
        produce(topic, 0, 3);
        try (var consumer = consumer(group, Map.of("share.acknowledgement.mode", "explicit"))) {
            consumer.subscribe(List.of(topic));
            var first = take(consumer, 3);
            for (var record : first) same((short) 1, record.deliveryCount().get(), "delivery count");
            consumer.acknowledge(first.get(0), AcknowledgeType.ACCEPT);
            consumer.acknowledge(first.get(1), AcknowledgeType.RELEASE);
            consumer.acknowledge(first.get(2), AcknowledgeType.REJECT);
            for (var result : consumer.commitSync().values()) check(result.isEmpty(), "commit: " + result);
            var again = take(consumer, 1);
            same("1", again.get(0).value(), "what comes again");
            same((short) 2, again.get(0).deliveryCount().get(), "delivery count");
            consumer.acknowledge(again.get(0), AcknowledgeType.ACCEPT);
            consumer.commitSync();
            same(0, consumer.poll(Duration.ofMillis(300)).count(), "records left");
        }
        same(3L, standing(group, topic).get(0L).startOffset(), "start offset");
    }

    static void deliveryLimit() throws Exception {
        String topic = topic(1), group = group(Map.of("share.auto.offset.reset", "earliest", "share.delivery.count.limit", "3"));
        produce(topic, 0, 1);
        try (var consumer = consumer(group, Map.of("share.acknowledgement.mode", "explicit"))) {
            consumer.subscribe(List.of(topic));
            for (short count = 1; count <= 3; count++) {
                var record = take(consumer, 1).get(0);
                same(count, record.deliveryCount().get(), "delivery count");
                consumer.acknowledge(record, AcknowledgeType.RELEASE);
                consumer.commitSync();
            }
            same(0, consumer.poll(Duration.ofMillis(300)).count(), "records after the last attempt");
        }
    }

    static void lockTimeout() throws Exception {
        String topic = topic(1);
        String group = group(Map.of("share.auto.offset.reset", "earliest", "share.record.lock.duration.ms", "1000"));
        produce(topic, 0, 1);
        try (var slow = consumer(group, Map.of("share.acknowledgement.mode", "explicit"));
                var other = consumer(group, Map.of("share.acknowledgement.mode", "explicit"))) {
            slow.subscribe(List.of(topic));
            var held = take(slow, 1).get(0);
            same(1000, slow.acquisitionLockTimeoutMs().get(), "lock timeout");
            other.subscribe(List.of(topic));
            var again = take(other, 1).get(0);
            same((short) 2, again.deliveryCount().get(), "delivery count");
            slow.acknowledge(held, AcknowledgeType.ACCEPT);
            var late = slow.commitSync().values().iterator().next();
            check(late.isPresent() && late.get() instanceof InvalidRecordStateException, "a late accept: " + late);
            other.acknowledge(again, AcknowledgeType.ACCEPT);
            check(other.commitSync().values().iterator().next().isEmpty(), "the accept of whoever holds it");
        }
    }

    /** A lock that is renewed outlives its time. */
    static void renew() throws Exception {
        String topic = topic(1);
        String group = group(Map.of("share.auto.offset.reset", "earliest", "share.record.lock.duration.ms", "1000"));
        produce(topic, 0, 1);
        try (var slow = consumer(group, Map.of("share.acknowledgement.mode", "explicit"));
                var other = consumer(group, Map.of("share.acknowledgement.mode", "explicit"))) {
            slow.subscribe(List.of(topic));
            other.subscribe(List.of(topic));
            var held = take(slow, 1).get(0);
            long end = System.currentTimeMillis() + 2500;
            while (System.currentTimeMillis() < end) {
                slow.acknowledge(held, AcknowledgeType.RENEW);
                for (var result : slow.commitSync().values()) check(result.isEmpty(), "renewal: " + result);
                same(0, other.poll(Duration.ofMillis(200)).count(), "records for another");
                held = take(slow, 1).get(0);
            }
            slow.acknowledge(held, AcknowledgeType.ACCEPT);
            for (var result : slow.commitSync().values()) check(result.isEmpty(), "accept: " + result);
        }
        same(1L, standing(group, topic).get(0L).startOffset(), "start offset");
    }

    static void recordLimit() throws Exception {
        String topic = topic(1), group = group(Map.of("share.auto.offset.reset", "earliest"));
        produce(topic, 0, 100);
        Map<String, Object> strict = Map.of("share.acquire.mode", "record_limit", "max.poll.records", 7);
        Set<String> got = new TreeSet<>();
        try (var consumer = consumer(group, strict)) {
            consumer.subscribe(List.of(topic));
            until(() -> {
                var records = consumer.poll(Duration.ofMillis(200));
                check(records.count() <= 7, records.count() + " records where 7 were asked for");
                records.forEach(record -> got.add(record.value()));
                return got.size() == 100;
            }, "100 records");
        }
    }

    static void beginLatest() throws Exception {
        String topic = topic(1), group = group(Map.of());
        produce(topic, 0, 5);
        try (var consumer = consumer(group, Map.of())) {
            consumer.subscribe(List.of(topic));
            until(() -> {
                check(consumer.poll(Duration.ofMillis(100)).isEmpty(), "an old record");
                return standing(group, topic).containsKey(0L);
            }, "the beginning");
            produce(topic, 5, 1);
            same("5", take(consumer, 1).get(0).value(), "the first record");
        }
    }

    static void readCommitted() throws Exception {
        String topic = topic(1);
        String group = group(Map.of("share.auto.offset.reset", "earliest", "share.isolation.level", "read_committed"));
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "transactional.id", "tx-" + UUID.randomUUID()));
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (String value : List.of("commit-1", "abort-1", "commit-2", "abort-2")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, value));
                producer.flush();
                if (value.startsWith("commit")) producer.commitTransaction(); else producer.abortTransaction();
            }
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "open"));
            producer.flush();
            try (var consumer = consumer(group, Map.of())) {
                consumer.subscribe(List.of(topic));
                var values = take(consumer, 2).stream().map(ConsumerRecord::value).toList();
                same(List.of("commit-1", "commit-2"), values, "committed records");
                same(0, consumer.poll(Duration.ofMillis(300)).count(), "records of an open transaction");
                producer.commitTransaction();
                same("open", take(consumer, 1).get(0).value(), "once it is committed");
                consumer.commitSync();
            }
        }
        check(standing(group, topic).get(0L).startOffset() >= 9L, "start offset");
    }

    /** What a member holds when it is closed goes to others at once. */
    static void closeReleases() throws Exception {
        String topic = topic(1), group = group(Map.of("share.auto.offset.reset", "earliest"));
        produce(topic, 0, 10);
        try (var consumer = consumer(group, Map.of("share.acknowledgement.mode", "explicit"))) {
            consumer.subscribe(List.of(topic));
            take(consumer, 10);
        }
        try (var consumer = consumer(group, Map.of())) {
            consumer.subscribe(List.of(topic));
            for (var record : take(consumer, 10)) same((short) 2, record.deliveryCount().get(), "delivery count");
        }
    }

    static void administration() throws Exception {
        String topic = topic(2), group = group(Map.of("share.auto.offset.reset", "earliest"));
        produce(topic, 0, 20);
        fails(GroupIdNotFoundException.class, admin.describeShareGroups(List.of(group)).all());
        try (var consumer = consumer(group, Map.of("client.id", "worker"))) {
            consumer.subscribe(List.of(topic));
            take(consumer, 20);
            consumer.commitSync();
            var found = get(admin.describeShareGroups(List.of(group)).all()).get(group);
            same(GroupState.STABLE, found.groupState(), "state");
            var member = found.members().iterator().next();
            same("worker", member.clientId(), "client id");
            same(2, member.assignment().topicPartitions().size(), "assigned partitions");
            fails(GroupNotEmptyException.class, admin.deleteShareGroups(List.of(group)).all());
        }
        until(() -> state(group) == GroupState.EMPTY, "an empty group");
        var listed = get(admin.listGroups(ListGroupsOptions.forShareGroups()).all());
        check(listed.stream().anyMatch(line -> line.groupId().equals(group) && line.type().get() == GroupType.SHARE), "not listed");
        long lag = standing(group, topic).values().stream().mapToLong(info -> info.lag().orElse(-1L)).sum();
        same(0L, lag, "lag");
        get(admin.alterShareGroupOffsets(group, Map.of(new TopicPartition(topic, 0), 0L)).all());
        same(0L, standing(group, topic).get(0L).startOffset(), "start offset");
        long total = get(admin.listOffsets(Map.of(new TopicPartition(topic, 0), org.apache.kafka.clients.admin.OffsetSpec.latest())).all())
                .values().iterator().next().offset();
        same(total, standing(group, topic).get(0L).lag().orElse(-1L), "lag after the reset");
        get(admin.deleteShareGroupOffsets(group, Set.of(topic)).all());
        check(standing(group, topic).values().stream().allMatch(Objects::isNull), "offsets are still there");
        get(admin.deleteShareGroups(List.of(group)).all());
        fails(GroupIdNotFoundException.class, admin.describeShareGroups(List.of(group)).all());
    }

    static void deadLetters() throws Exception {
        String topic = topic(1), dead = "dlq." + topic;
        String group = group(Map.of("share.auto.offset.reset", "earliest", "errors.deadletterqueue.topic.name", dead));
        produce(topic, 0, 10);
        try (var consumer = consumer(group, Map.of("share.acknowledgement.mode", "explicit"))) {
            consumer.subscribe(List.of(topic));
            for (var record : take(consumer, 10))
                consumer.acknowledge(record, record.value().equals("7") ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT);
            consumer.commitSync();
        }
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest", "group.id", "r-" + group);
        try (var reader = new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            reader.subscribe(List.of(dead));
            List<ConsumerRecord<String, String>> found = new ArrayList<>();
            until(() -> { reader.poll(Duration.ofMillis(200)).forEach(found::add); return !found.isEmpty(); }, "a dead letter");
            same("7", found.get(0).value(), "value");
            Map<String, String> headers = new TreeMap<>();
            found.get(0).headers().forEach(header -> headers.put(header.key(), new String(header.value(), StandardCharsets.UTF_8)));
            same(topic, headers.get("__dlq.errors.topic"), "topic");
            same("7", headers.get("__dlq.errors.offset"), "offset");
            same(group, headers.get("__dlq.errors.group"), "group");
            same("1", headers.get("__dlq.errors.delivery.count"), "delivery count");
        }
    }

    // ---- what the checks share

    static String topic(int partitions) throws Exception {
        String name = "share-" + UUID.randomUUID();
        get(admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all());
        return name;
    }

    static String group(Map<String, String> config) throws Exception {
        String name = "pool-" + UUID.randomUUID();
        var ops = config.entrySet().stream()
                .map(entry -> new AlterConfigOp(new ConfigEntry(entry.getKey(), entry.getValue()), AlterConfigOp.OpType.SET)).toList();
        if (!ops.isEmpty()) get(admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.GROUP, name), ops)).all());
        return name;
    }

    static void produce(String topic, int from, int count) throws Exception {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "linger.ms", 5);
        try (var producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer())) {
            List<Future<?>> sent = new ArrayList<>();
            for (int n = from; n < from + count; n++) sent.add(producer.send(new ProducerRecord<>(topic, String.valueOf(n))));
            for (var one : sent) get(one);
        }
    }

    static KafkaShareConsumer<String, String> consumer(String group, Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "group.id", group, "fetch.max.wait.ms", 200));
        config.putAll(more);
        return new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    static List<ConsumerRecord<String, String>> take(KafkaShareConsumer<String, String> consumer, int count) {
        List<ConsumerRecord<String, String>> found = new ArrayList<>();
        until(() -> { consumer.poll(Duration.ofMillis(200)).forEach(found::add); return found.size() >= count; }, count + " records");
        same(count, found.size(), "records");
        return found;
    }

    static Map<Long, org.apache.kafka.clients.admin.SharePartitionOffsetInfo> standing(String group, String topic) {
        try {
            var found = get(admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(group));
            Map<Long, org.apache.kafka.clients.admin.SharePartitionOffsetInfo> by = new TreeMap<>();
            found.forEach((partition, info) -> { if (partition.topic().equals(topic)) by.put((long) partition.partition(), info); });
            return by;
        } catch (Exception failure) {
            return Map.of();
        }
    }

    static GroupState state(String group) {
        try {
            return get(admin.describeShareGroups(List.of(group)).all()).get(group).groupState();
        } catch (Exception failure) {
            throw new AssertionError(failure);
        }
    }

    static <T> T get(Future<T> future) throws Exception { return future.get(DEADLINE_MS, TimeUnit.MILLISECONDS); }

    interface Condition { boolean holds(); }

    static void until(Condition done, String what) {
        long end = System.currentTimeMillis() + DEADLINE_MS;
        while (!done.holds()) check(System.currentTimeMillis() < end, "waited in vain: " + what);
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
        String at = Arrays.stream(failure.getStackTrace()).filter(frame -> frame.getClassName().startsWith("Share"))
                .limit(4).map(frame -> frame.getMethodName() + ":" + frame.getLineNumber()).collect(Collectors.joining(" < "));
        return (failure + " at " + at).replace('\n', ' ');
    }
}
