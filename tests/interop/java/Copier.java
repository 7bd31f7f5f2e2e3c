// The exactly-once copy of tests/soak/copier.py with Apache Kafka's own Java client:
//
//     java -cp 'jars/*' Copier.java HOST:PORT SOURCE TARGET RUN HISTORY SEED
//
// It reads records, writes each to another topic and commits its position, all in transactions, and appends a line to HISTORY
// for each thing it did. Now and then it aborts of its own will. What it can't get over ends it, and the test starts another.

import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

public class Copier {
    static FileOutputStream history;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0], source = arguments[1], target = arguments[2], run = arguments[3];
        history = new FileOutputStream(arguments[4], true);
        Random chance = new Random(Long.parseLong(arguments[5]) * 31 + run.hashCode());
        KafkaConsumer<String, String> consumer = new KafkaConsumer<>(with(bootstrap, Map.of(
            "group.id", "copy", "auto.offset.reset", "earliest", "enable.auto.commit", "false", "isolation.level", "read_committed",
            "session.timeout.ms", "1000", "heartbeat.interval.ms", "100", "max.poll.records", "60")),
            new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(source));
        KafkaProducer<String, String> producer = new KafkaProducer<>(with(bootstrap, Map.of(
            "transactional.id", "copy", "transaction.timeout.ms", "20000", "linger.ms", "1", "max.block.ms", "30000")),
            new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        for (int number = 1; ; number++) {
            List<ConsumerRecord<String, String>> records = new ArrayList<>();
            consumer.poll(Duration.ofMillis(50)).forEach(records::add);
            if (!records.isEmpty()) copy(consumer, producer, records, target, run + "-" + number, chance.nextDouble() < 0.15);
        }
    }

    static void copy(KafkaConsumer<String, String> consumer, KafkaProducer<String, String> producer,
            List<ConsumerRecord<String, String>> records, String target, String transaction, boolean changesItsMind) {
        Map<TopicPartition, OffsetAndMetadata> positions = new HashMap<>();
        Map<TopicPartition, Long> firsts = new HashMap<>();
        try {
            producer.beginTransaction();
            for (ConsumerRecord<String, String> record : records) {
                TopicPartition place = new TopicPartition(record.topic(), record.partition());
                positions.put(place, new OffsetAndMetadata(record.offset() + 1));
                firsts.putIfAbsent(place, record.offset());
                ProducerRecord<String, String> copied = new ProducerRecord<>(target, record.partition(), null, record.value());
                copied.headers().add(new RecordHeader("t", transaction.getBytes(StandardCharsets.UTF_8)));
                producer.send(copied, (sent, error) -> {
                    if (error == null) note("wrote", transaction, sent.partition(), sent.offset(), record.value());
                });
            }
            if (changesItsMind) throw new KafkaException("a change of mind");
            retried(() -> producer.sendOffsetsToTransaction(positions, consumer.groupMetadata()));
            producer.flush();
            note("asked", transaction, "commit");
            retried(producer::commitTransaction);
            note("ended", transaction, "commit");
        } catch (ProducerFencedException | InvalidProducerEpochException fenced) {
            throw fenced;
        } catch (KafkaException error) {
            note("asked", transaction, "abort");
            retried(producer::abortTransaction);
            note("ended", transaction, "abort");
            firsts.forEach(consumer::seek);
        }
    }

    static void retried(Runnable step) {
        while (true) {
            try {
                step.run();
                return;
            } catch (TimeoutException again) {
                // the server is away: the same once more, as the client's documentation asks
            }
        }
    }

    static Map<String, Object> with(String bootstrap, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", bootstrap, "reconnect.backoff.max.ms", "100",
            "retry.backoff.ms", "20", "retry.backoff.max.ms", "100"));
        settings.putAll(more);
        return settings;
    }

    /** The clock is that of Python's time.monotonic. */
    static synchronized void note(Object... words) {
        StringBuilder line = new StringBuilder().append(System.nanoTime() / 1e9);
        for (Object word : words) line.append(' ').append(word);
        try {
            history.write(line.append('\n').toString().getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new AssertionError(error);
        }
    }
}
