// Apache Kafka's own Java client in groups of the consumer protocol (KIP-848), against the server at the given address.
//
//     java -cp 'jars/*' ConsumerGroups.java HOST:PORT [CHECK...]
//
// Each check prints one line, "=> ok NAME" or "=> failed NAME: why". Every check uses topics and groups of its own.

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.admin.MemberToRemove;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RemoveMembersFromConsumerGroupOptions;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.GroupNotEmptyException;
import org.apache.kafka.common.errors.InvalidRegularExpression;
import org.apache.kafka.common.errors.UnreleasedInstanceIdException;
import org.apache.kafka.common.errors.UnsupportedAssignorException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class ConsumerGroups {
    static final long DEADLINE_MS = 60_000;
    static String bootstrap;
    static Admin admin;

    interface Check { void run() throws Exception; }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        Set<String> wanted = new HashSet<>(Arrays.asList(arguments).subList(1, arguments.length));
        Map<String, Check> checks = new LinkedHashMap<>();
        for (String assignor : List.of("uniform", "range")) checks.put("share-" + assignor, () -> share(assignor));
        checks.put("crash", ConsumerGroups::crash);
        checks.put("static", ConsumerGroups::staticMembers);
        checks.put("pattern", ConsumerGroups::pattern);
        checks.put("refused", ConsumerGroups::refused);
        checks.put("growth", ConsumerGroups::growth);
        checks.put("upgrade", ConsumerGroups::upgrade);
        checks.put("downgrade", ConsumerGroups::downgrade);
        checks.put("admin", ConsumerGroups::administration);
        checks.put("configs", ConsumerGroups::configs);

        try (Admin shared = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin = shared;
            for (Map.Entry<String, Check> check : checks.entrySet()) {
                if (!wanted.isEmpty() && !wanted.contains(check.getKey())) continue;
                try {
                    check.getValue().run();
                    System.out.println("\n=> ok " + check.getKey());
                } catch (Throwable failure) {
                    System.out.println("\n=> failed " + check.getKey() + ": " + failure + " at "
                        + Arrays.stream(failure.getStackTrace()).filter(frame -> frame.getClassName().startsWith("ConsumerGroups"))
                            .map(frame -> frame.getMethodName() + ":" + frame.getLineNumber()).collect(Collectors.joining(" < ")));
                }
            }
        }
        System.exit(0);
    }

    // ---- checks

    static void share(String assignor) throws Exception {
        String topic = topic(6);
        String group = group();
        Map<String, Object> config = Map.of("group.remote.assignor", assignor);
        Member first = new Member(group, topic, config);
        settle(List.of(first), () -> first.size() == 6, "one member owns all");
        Member second = new Member(group, topic, config);
        settle(List.of(first, second), () -> sizes(List.of(first, second), 3, 3), "two share");
        Member third = new Member(group, topic, config);
        List<Member> all = List.of(first, second, third);
        settle(all, () -> sizes(all, 2, 2, 2), "three share");
        for (int partition = 0; partition < 6; partition++) produce(topic, partition, 10);
        settle(all, () -> all.stream().mapToInt(member -> member.seen.size()).sum() >= 60, "everything is read");
        same(60, all.stream().flatMap(member -> member.seen.stream()).collect(Collectors.toSet()).size(), "records read");
        first.consumer.commitSync();
        first.leave();
        settle(List.of(second, third), () -> sizes(List.of(second, third), 3, 3), "the one that left has handed over");
        same(assignor, describe(group).partitionAssignor(), "assignor");
        second.leave();
        third.leave();
        same(GroupState.EMPTY, describe(group).groupState(), "state");
    }

    static void crash() throws Exception {
        String topic = topic(4);
        String group = group();
        Member doomed = new Member(group, topic, Map.of());
        Member survivor = new Member(group, topic, Map.of());
        settle(List.of(doomed, survivor), () -> sizes(List.of(doomed, survivor), 2, 2), "two share");
        doomed.vanish();
        settle(List.of(survivor), () -> survivor.size() == 4, "the survivor owns all");
        survivor.leave();
    }

    static void staticMembers() throws Exception {
        String topic = topic(4);
        String group = group();
        Member steady = new Member(group, topic, Map.of("group.instance.id", "steady"));
        Member restless = new Member(group, topic, Map.of("group.instance.id", "restless"));
        settle(List.of(steady, restless), () -> sizes(List.of(steady, restless), 2, 2), "two share");
        Set<TopicPartition> before = Set.copyOf(restless.consumer.assignment());
        int epoch = describe(group).groupEpoch().get();
        steady.revoked.clear();
        restless.leave(); // a static member leaves for a while
        Member back = new Member(group, topic, Map.of("group.instance.id", "restless"));
        settle(List.of(steady, back), () -> back.size() == 2, "it has come back");
        same(before, Set.copyOf(back.consumer.assignment()), "what it had");
        same(epoch, describe(group).groupEpoch().get(), "group epoch");
        same(0, steady.revoked.stream().mapToInt(Integer::intValue).sum(), "taken from the other");
        Member twin = new Member(group, topic, Map.of("group.instance.id", "restless"));
        fails(UnreleasedInstanceIdException.class, () -> settle(List.of(steady, back, twin), () -> false, "the twin"));
        twin.vanish();
        back.vanish();
        admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("restless"))))
            .all().get();
        settle(List.of(steady), () -> steady.size() == 4, "the removed one has handed over");
        steady.leave();
    }

    static void pattern() throws Exception {
        String stem = "pattern-" + UUID.randomUUID().toString().substring(0, 8);
        make(stem + "-orders.eu", 2);
        make(stem + "-orders.us", 2);
        make(stem + "-bills", 2);
        String group = group();
        Member first = new Member(group, new SubscriptionPattern(stem + "-orders\\.(eu|us|asia)"), Map.of());
        Member second = new Member(group, new SubscriptionPattern(stem + "-orders\\.(eu|us|asia)"), Map.of());
        List<Member> both = List.of(first, second);
        settle(both, () -> sizes(both, 2, 2), "two share what matches");
        make(stem + "-orders.asia", 2);
        make(stem + "-orders.mars", 2);
        settle(both, () -> sizes(both, 3, 3), "a new topic that matches");
        Member bills = new Member(group, new SubscriptionPattern("(?i)" + stem.toUpperCase() + "-b\\w+"), Map.of());
        List<Member> all = List.of(first, second, bills);
        settle(all, () -> bills.size() == 2 && sizes(both, 3, 3), "another expression in the group");
        all.forEach(Member::leave);
    }

    static void refused() throws Exception {
        String topic = topic(1);
        Member wrong = new Member(group(), new SubscriptionPattern("(unclosed"), Map.of());
        fails(InvalidRegularExpression.class, () -> settle(List.of(wrong), () -> false, "a wrong expression"));
        wrong.vanish();
        Member look = new Member(group(), new SubscriptionPattern("look(?=ahead)"), Map.of());
        fails(InvalidRegularExpression.class, () -> settle(List.of(look), () -> false, "a lookahead"));
        look.vanish();
        Member custom = new Member(group(), topic, Map.of("group.remote.assignor", "mine"));
        fails(UnsupportedAssignorException.class, () -> settle(List.of(custom), () -> false, "an unknown assignor"));
        custom.vanish();
    }

    static void growth() throws Exception {
        String topic = topic(2);
        String group = group();
        Member first = new Member(group, topic, Map.of());
        Member second = new Member(group, topic, Map.of());
        List<Member> both = List.of(first, second);
        settle(both, () -> sizes(both, 1, 1), "two share");
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(6))).all().get();
        settle(both, () -> sizes(both, 3, 3), "new partitions");
        admin.deleteTopics(List.of(topic)).all().get();
        settle(both, () -> sizes(both, 0, 0), "the topic is gone");
        both.forEach(Member::leave);
    }

    static void upgrade() throws Exception {
        String topic = topic(4);
        String group = group();
        Member old = Member.classic(group, topic);
        Member older = Member.classic(group, topic);
        settle(List.of(old, older), () -> sizes(List.of(old, older), 2, 2), "two of the classic protocol share");
        for (int partition = 0; partition < 4; partition++) produce(topic, partition, 5);
        settle(List.of(old, older), () -> old.seen.size() + older.seen.size() == 20, "they read");
        old.consumer.commitSync();
        older.consumer.commitSync();
        same(GroupType.CLASSIC, type(group), "type");
        Member modern = new Member(group, topic, Map.of());
        List<Member> mixed = List.of(old, older, modern);
        settle(mixed, () -> sizes(mixed, 1, 1, 2), "both protocols in one group");
        same(GroupType.CONSUMER, type(group), "type");
        same(2L, describe(group).members().stream().filter(member -> !member.upgraded().get()).count(), "classic members");
        for (int partition = 0; partition < 4; partition++) produce(topic, partition, 5);
        settle(mixed, () -> mixed.stream().mapToInt(member -> member.seen.size()).sum() >= 40, "all is read");
        same(40, mixed.stream().mapToInt(member -> member.seen.size()).sum(), "and nothing twice");
        mixed.forEach(member -> member.consumer.commitSync());
        old.leave();
        older.leave();
        settle(List.of(modern), () -> modern.size() == 4, "only the new protocol is left");
        same(10L, committed(group).get(new TopicPartition(topic, 0)).offset(), "committed");
        modern.leave();
    }

    static void downgrade() throws Exception {
        String topic = topic(4);
        String group = group();
        Member modern = new Member(group, topic, Map.of());
        settle(List.of(modern), () -> modern.size() == 4, "the new protocol alone");
        Member old = Member.classic(group, topic);
        settle(List.of(modern, old), () -> sizes(List.of(modern, old), 2, 2), "both protocols in one group");
        modern.leave();
        settle(List.of(old), () -> old.size() == 4, "the classic member owns all");
        same(GroupType.CLASSIC, type(group), "type");
        old.leave();
    }

    static void administration() throws Exception {
        String topic = topic(3);
        String group = group();
        Member member = new Member(group, topic, Map.of("client.id", "the-member", "client.rack", "r1"));
        settle(List.of(member), () -> member.size() == 3, "joined");
        ConsumerGroupDescription described = describe(group);
        same(GroupState.STABLE, described.groupState(), "state");
        same(GroupType.CONSUMER, described.type(), "type");
        same(described.groupEpoch(), described.targetAssignmentEpoch(), "epochs");
        var told = described.members().iterator().next();
        same("the-member", told.clientId(), "client id");
        same(3, told.assignment().topicPartitions().size(), "assignment");
        same(3, told.targetAssignment().get().topicPartitions().size(), "target");
        same(described.groupEpoch(), told.memberEpoch(), "member epoch");
        same(true, told.upgraded().get(), "upgraded");
        check(admin.listGroups(ListGroupsOptions.forConsumerGroups().withTypes(Set.of(GroupType.CONSUMER))).all().get().stream()
            .anyMatch(listing -> listing.groupId().equals(group)), "listed among consumer groups");
        check(admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC))).all().get().stream()
            .noneMatch(listing -> listing.groupId().equals(group)), "not listed among classic groups");
        failsAsync(GroupIdNotFoundException.class, () -> admin.describeClassicGroups(List.of(group)).all().get());
        failsAsync(GroupNotEmptyException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
        TopicPartition zero = new TopicPartition(topic, 0);
        member.consumer.commitSync(Map.of(zero, new OffsetAndMetadata(7)));
        member.leave();
        same(7L, committed(group).get(zero).offset(), "committed");
        admin.alterConsumerGroupOffsets(group, Map.of(zero, new OffsetAndMetadata(9))).all().get();
        same(9L, committed(group).get(zero).offset(), "altered");
        admin.deleteConsumerGroups(List.of(group)).all().get();
        failsAsync(GroupIdNotFoundException.class, () -> describe(group));
    }

    static void configs() throws Exception {
        String group = group();
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        AlterConfigOp longer = new AlterConfigOp(new ConfigEntry("consumer.session.timeout.ms", "50000"), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(longer))).all().get();
        String found = null;
        for (long end = System.currentTimeMillis() + 10_000; System.currentTimeMillis() < end && !"50000".equals(found); )
            found = admin.describeConfigs(List.of(resource)).all().get().get(resource).get("consumer.session.timeout.ms").value();
        same("50000", found, "session timeout");
    }

    // ---- members

    static class Member implements ConsumerRebalanceListener {
        final KafkaConsumer<byte[], byte[]> consumer;
        final List<Integer> revoked = new ArrayList<>();
        final List<String> seen = new ArrayList<>();
        boolean closed;

        Member(Map<String, Object> more) {
            Map<String, Object> config = new HashMap<>(Map.of(
                "bootstrap.servers", bootstrap, "fetch.max.wait.ms", 50, "auto.offset.reset", "earliest",
                "enable.auto.commit", false, "allow.auto.create.topics", false, "metadata.max.age.ms", 1000,
                "key.deserializer", ByteArrayDeserializer.class, "value.deserializer", ByteArrayDeserializer.class));
            config.put("group.protocol", "consumer");
            config.putAll(more);
            consumer = new KafkaConsumer<>(config);
        }

        Member(String group, String topic, Map<String, Object> more) {
            this(with(more, "group.id", group));
            consumer.subscribe(List.of(topic), this);
        }

        Member(String group, SubscriptionPattern pattern, Map<String, Object> more) {
            this(with(more, "group.id", group));
            consumer.subscribe(pattern, this);
        }

        static Member classic(String group, String topic) {
            Member member = new Member(Map.of("group.id", group, "group.protocol", "classic", "heartbeat.interval.ms", 300,
                "partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"));
            member.consumer.subscribe(List.of(topic), member);
            return member;
        }

        static Map<String, Object> with(Map<String, Object> more, String name, Object value) {
            Map<String, Object> all = new HashMap<>(more);
            all.put(name, value);
            return all;
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
        long end = System.currentTimeMillis() + DEADLINE_MS;
        while (true) {
            members.forEach(Member::poll);
            if (done.getAsBoolean()) return;
            if (System.currentTimeMillis() > end)
                throw new AssertionError("not in time: " + what + "; they own " + members.stream().map(Member::size).toList());
        }
    }

    static boolean sizes(List<Member> members, int... expected) {
        return Arrays.equals(members.stream().mapToInt(Member::size).sorted().toArray(), expected);
    }

    // ---- small things

    static String group() { return "group-" + UUID.randomUUID(); }

    static String topic(int partitions) throws Exception {
        return make("java-" + UUID.randomUUID(), partitions);
    }

    static String make(String name, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
        return name;
    }

    static void produce(String topic, int partition, int count) {
        try (var producer = new KafkaProducer<byte[], byte[]>(Map.of("bootstrap.servers", bootstrap,
                "key.serializer", ByteArraySerializer.class, "value.serializer", ByteArraySerializer.class))) {
            for (int i = 0; i < count; i++) producer.send(new ProducerRecord<>(topic, partition, null, new byte[] {(byte) i}));
        }
    }

    static ConsumerGroupDescription describe(String group) throws Exception {
        return admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
    }

    static GroupType type(String group) throws Exception {
        return admin.listGroups().all().get().stream().filter(listing -> listing.groupId().equals(group))
            .map(GroupListing::type).findFirst().orElseThrow().orElseThrow();
    }

    static Map<TopicPartition, OffsetAndMetadata> committed(String group) throws Exception {
        return admin.listConsumerGroupOffsets(Map.of(group, new ListConsumerGroupOffsetsSpec())).partitionsToOffsetAndMetadata(group).get();
    }

    static void same(Object expected, Object actual, String what) {
        check(expected.equals(actual), what + ": expected " + expected + ", got " + actual);
    }

    static void check(boolean holds, String what) {
        if (!holds) throw new AssertionError(what);
    }

    static void fails(Class<? extends Throwable> kind, Runnable action) {
        try {
            action.run();
        } catch (Throwable failure) {
            check(kind.isInstance(failure), "expected " + kind.getSimpleName() + ", got " + failure);
            return;
        }
        throw new AssertionError("expected " + kind.getSimpleName());
    }

    static void failsAsync(Class<? extends Throwable> kind, Check action) throws Exception {
        try {
            action.run();
        } catch (ExecutionException failure) {
            check(kind.isInstance(failure.getCause()), "expected " + kind.getSimpleName() + ", got " + failure.getCause());
            return;
        }
        throw new AssertionError("expected " + kind.getSimpleName());
    }
}
