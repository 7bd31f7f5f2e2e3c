import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a compacted partition from its first offset to its end, with isolation.level=read_committed: bootstrap servers, topic,
 * and any number of times. Prints "offset timestamp key value" for each record, "-" for no value, then "time when offset" for
 * each of the times.
 */
public class ReadCompacted {
    public static void main(String[] arguments) throws Exception {
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("auto.offset.reset", "none");
        properties.put("isolation.level", "read_committed");
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            consumer.seekToBeginning(List.of(partition));
            while (consumer.position(partition) < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(10))) {
                    System.out.println(record.offset() + " " + record.timestamp() + " " + text(record.key()) + " " + text(record.value()));
                }
            }
            for (int i = 2; i < arguments.length; i++) {
                var found = consumer.offsetsForTimes(Map.of(partition, Long.parseLong(arguments[i]))).get(partition);
                System.out.println("time " + arguments[i] + " " + (found == null ? -1 : found.offset()));
            }
        }
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : new String(bytes, StandardCharsets.UTF_8);
    }
}
