// Transactions with Apache Kafka's own Java client, which speaks transactions V2 (KIP-890):
//
//     java -cp 'jars/*' Transactions.java HOST:PORT
//
// Each check prints one line, "=> ok NAME" or "=> failed NAME: why". Every check uses names of its own.

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Transactions {
    static final long DEADLINE_MS = 30_000;
    static String bootstrap;
    static Admin admin;

    public static void main(String[] arguments) {
        bootstrap = arguments[0];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        run("committed-and-aborted", Transactions::committedAndAborted);
        run("fencing", Transactions::fencing);
        run("copy", Transactions::copy);
        run("aborted-copy", Transactions::abortedCopy);
        run("admin", Transactions::administration);
        admin.close();
        System.exit(0);
    }

    static Void committedAndAborted() throws Exception {
        String topic = topic(1);
        try (KafkaProducer<String, String> producer = producer(unique("tx"))) {
            for (int number = 0; number < 6; number++) {
                producer.beginTransaction();
                for (int part = 0; part < 3; part++) producer.send(new ProducerRecord<>(topic, 0, null, number + "-" + part)).get();
                if (number % 2 == 0) producer.commitTransaction(); else producer.abortTransaction();
            }
        }
        same(List.of("0-0", "0-1", "0-2", "2-0", "2-1", "2-2", "4-0", "4-1", "4-2"), read(topic, true), "committed");
        same(18, read(topic, false).size(), "all");
        return null;
    }

    static Void fencing() throws Exception {
        String topic = topic(1), name = unique("tx");
        KafkaProducer<String, String> old = producer(name);
        old.beginTransaction();
        old.send(new ProducerRecord<>(topic, 0, null, "zombie")).get();
        try (KafkaProducer<String, String> young = producer(name)) {
            try {
                old.commitTransaction();
                throw new AssertionError("the old producer was not fenced");
            } catch (ProducerFencedException | InvalidProducerEpochException expected) {
                old.close(Duration.ZERO);
            }
            young.beginTransaction();
            young.send(new ProducerRecord<>(topic, 0, null, "young"));
            young.commitTransaction();
        }
        same(List.of("young"), read(topic, true), "committed");
        return null;
    }

    static Void copy() throws Exception { return copy(true); }

    static Void abortedCopy() throws Exception { return copy(false); }

    static Void copy(boolean commit) throws Exception {
        String source = topic(1), target = topic(1), group = unique("group");
        try (KafkaProducer<String, String> feed = producer(null)) {
            for (int number = 0; number < 10; number++) feed.send(new ProducerRecord<>(source, 0, null, "" + number)).get();
        }
        TopicPartition place = new TopicPartition(source, 0);
        try (KafkaConsumer<String, String> consumer = consumer(group, true); KafkaProducer<String, String> producer = producer(unique("tx"))) {
            consumer.subscribe(List.of(source));
            List<ConsumerRecord<String, String>> records = new ArrayList<>();
            long end = System.currentTimeMillis() + DEADLINE_MS;
            while (records.size() < 10 && System.currentTimeMillis() < end) consumer.poll(Duration.ofMillis(100)).forEach(records::add);
            producer.beginTransaction();
            for (ConsumerRecord<String, String> record : records) producer.send(new ProducerRecord<>(target, 0, null, record.value()));
            producer.sendOffsetsToTransaction(Map.of(place, new OffsetAndMetadata(10)), consumer.groupMetadata());
            if (commit) producer.commitTransaction(); else producer.abortTransaction();
        }
        OffsetAndMetadata committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(place);
        same(commit ? 10L : null, committed == null ? null : committed.offset(), "position");
        same(commit ? 10 : 0, read(target, true).size(), "copied");
        return null;
    }

    static Void administration() throws Exception {
        String topic = topic(1), name = unique("tx");
        TopicPartition place = new TopicPartition(topic, 0);
        KafkaProducer<String, String> producer = producer(name);
        producer.beginTransaction();
        producer.send(new ProducerRecord<>(topic, 0, null, "hangs")).get();
        same(TransactionState.ONGOING, admin.describeTransactions(List.of(name)).description(name).get().state(), "described");
        same(1L, admin.listTransactions(new ListTransactionsOptions().filterStates(List.of(TransactionState.ONGOING))).all().get()
            .stream().filter(listing -> listing.transactionalId().equals(name)).count(), "listed");
        ProducerState state = admin.describeProducers(List.of(place)).partitionResult(place).get().activeProducers().get(0);
        same(0L, state.currentTransactionStartOffset().getAsLong(), "start offset");
        same(0, read(topic, true).size(), "held back");
        admin.abortTransaction(new AbortTransactionSpec(place, state.producerId(), (short) state.producerEpoch(),
            state.coordinatorEpoch().orElse(0))).all().get();
        same(-1L, admin.describeProducers(List.of(place)).partitionResult(place).get().activeProducers().get(0)
            .currentTransactionStartOffset().orElse(-1L), "aborted");
        admin.fenceProducers(List.of(name)).all().get();
        producer.close(Duration.ZERO);
        return null;
    }

    // --- short words

    static KafkaProducer<String, String> producer(String name) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap));
        if (name != null) config.put("transactional.id", name);
        KafkaProducer<String, String> producer = new KafkaProducer<>(config, new StringSerializer(), new StringSerializer());
        if (name != null) producer.initTransactions();
        return producer;
    }

    static KafkaConsumer<String, String> consumer(String group, boolean committed) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        config.put("isolation.level", committed ? "read_committed" : "read_uncommitted");
        if (group != null) config.put("group.id", group);
        return new KafkaConsumer<>(config, new StringDeserializer(), new StringDeserializer());
    }

    static List<String> read(String topic, boolean committed) {
        TopicPartition place = new TopicPartition(topic, 0);
        List<String> found = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(null, committed)) {
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            long last = consumer.endOffsets(List.of(place)).get(place), deadline = System.currentTimeMillis() + DEADLINE_MS;
            while (consumer.position(place) < last && System.currentTimeMillis() < deadline)
                consumer.poll(Duration.ofMillis(100)).forEach(record -> found.add(record.value()));
        }
        return found;
    }

    static String topic(int partitions) throws Exception {
        String name = unique("java-transactions");
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
        return name;
    }

    static String unique(String stem) { return stem + "-" + UUID.randomUUID(); }

    static void same(Object expected, Object actual, String what) {
        if (expected == null ? actual != null : !expected.equals(actual)) throw new AssertionError(what + ": expected " + expected + ", got " + actual);
    }

    static void run(String name, Callable<Void> check) {
        try {
            check.call();
            System.out.println("=> ok " + name);
        } catch (Throwable failure) {
            System.out.println("=> failed " + name + ": " + failure);
        }
    }
}
