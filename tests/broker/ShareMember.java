import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Kafka's own share consumer. Arguments: HOST:PORT, group, topic. Accepts each record, and prints a line
 * "accepted PARTITION OFFSET DELIVERY-COUNT" once the broker has said so. Ends after a line on standard input.
 */
public class ShareMember {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> config = Map.of(
            "bootstrap.servers", arguments[0],
            "group.id", arguments[1],
            "share.acknowledgement.mode", "explicit",
            "share.acquire.mode", "record_limit",
            "max.poll.records", 5,
            "key.deserializer", ByteArrayDeserializer.class,
            "value.deserializer", ByteArrayDeserializer.class);
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(config)) {
            consumer.subscribe(List.of(arguments[2]));
            while (System.in.available() == 0) {
                StringBuilder lines = new StringBuilder();
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                    lines.append("accepted ").append(record.partition()).append(' ').append(record.offset())
                        .append(' ').append(record.deliveryCount().orElse((short) 0)).append('\n');
                }
                consumer.commitSync().values().forEach(failure -> failure.ifPresent(error -> {
                    throw error;
                }));
                System.out.print(lines);
                System.out.flush();
            }
        }
    }
}
