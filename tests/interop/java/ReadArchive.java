import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a partition from its first offset to its end and says what it found: bootstrap servers, topic.
 *
 * Prints "earliest local tiered pending", then "first last count"; fails when an offset is missing or comes twice.
 */
public class ReadArchive {
    public static void main(String[] arguments) throws Exception {
        TopicPartition partition = new TopicPartition(arguments[1], 0);
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("auto.offset.reset", "none");
        try (Admin admin = Admin.create(properties)) {
            for (OffsetSpec spec : List.of(
                    OffsetSpec.earliest(), OffsetSpec.earliestLocal(), OffsetSpec.latestTiered(),
                    OffsetSpec.earliestPendingUpload())) {
                System.out.print(admin.listOffsets(Map.of(partition, spec)).partitionResult(partition).get().offset() + " ");
            }
            System.out.println();
        }
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(partition));
            long first = consumer.beginningOffsets(List.of(partition)).get(partition);
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            consumer.seek(partition, first);
            long next = first;
            while (next < end) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(10))) {
                    if (record.offset() != next) throw new AssertionError("offset " + record.offset() + " instead of " + next);
                    next++;
                }
            }
            System.out.println(first + " " + (next - 1) + " " + (next - first));
        }
    }
}
