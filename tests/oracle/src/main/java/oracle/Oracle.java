package oracle;

import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;

/** Authors vectors with Kafka's generated classes: one file per message, and the tables of {@link Facts}. */
public final class Oracle {
    static final String KAFKA = "\"kafka\":\"" + System.getProperty("kafka") + "\"";

    /** Where the classes of each Kafka module live; the vectors of {@code clients} go to the root of the output folder. */
    private static final Map<String, String> MODULES = new TreeMap<>(Map.of(
        "clients", "org.apache.kafka.common.message",
        "group-coordinator", "org.apache.kafka.coordinator.group.generated",
        "metadata", "org.apache.kafka.common.metadata",
        "raft", "org.apache.kafka.raft.generated",
        "share-coordinator", "org.apache.kafka.coordinator.share.generated",
        "storage", "org.apache.kafka.server.log.remote.metadata.storage.generated",
        "transaction-coordinator", "org.apache.kafka.coordinator.transaction.generated"));

    private final Options options;
    private final Map<String, Integer> counts = new TreeMap<>();
    private int messages = 0;
    private int versions = 0;

    private Oracle(Options options) {
        this.options = options;
    }

    public static void main(String[] arguments) throws Exception {
        new Oracle(Options.parse(arguments)).run();
    }

    private void run() throws Exception {
        for (Map.Entry<String, String> module : MODULES.entrySet()) {
            boolean clients = module.getKey().equals("clients");
            Path folder = clients ? options.out() : options.out().resolve(module.getKey());
            Map<String, Kafka> all = load(options.schemas().resolve(module.getKey()), module.getValue());
            List<ObjectNode> defaults = new ArrayList<>();
            for (Kafka kafka : all.values()) {
                defaults.add(Facts.defaults(kafka));
                if (options.only() == null || options.only().equals(kafka.schema.name()))
                    author(kafka, folder);
            }
            if (options.only() != null)
                continue;
            write(folder.resolve("defaults.json"), KAFKA + ",\"messages\"", defaults);
            if (clients) {
                write(folder.resolve("frames.json"), KAFKA + ",\"frames\"", Facts.frames(all));
                write(folder.resolve("apis.json"), KAFKA + ",\"apis\"", Facts.apis());
                write(folder.resolve("errors.json"), KAFKA + ",\"errors\"", Facts.errors());
            }
        }
        System.out.println(messages + " messages, " + versions + " versions, " + counts.values().stream().mapToInt(i -> i).sum() + " cases");
        counts.forEach((kind, n) -> System.out.printf("%6d %s%n", n, kind));
    }

    private static Map<String, Kafka> load(Path folder, String packageName) throws IOException, ClassNotFoundException {
        Map<String, Kafka> all = new TreeMap<>();
        try (Stream<Path> files = Files.list(folder)) {
            for (Path file : files.sorted().toList()) {
                Schema schema = Schema.read(file);
                if (!schema.valid().isEmpty())
                    all.put(schema.name(), new Kafka(schema, packageName));
            }
        }
        return all;
    }

    private void author(Kafka kafka, Path folder) throws IOException {
        List<ObjectNode> cases = new Vectors(kafka, options).cases();
        write(folder.resolve(kafka.schema.name() + ".json"), "\"message\":\"" + kafka.schema.name() + "\"," + KAFKA + ",\"cases\"", cases);
        messages++;
        versions += kafka.schema.valid().high() - kafka.schema.valid().low() + 1;
        for (ObjectNode node : cases)
            counts.merge(node.get("kind").asText().replaceAll("\\d+$", "N"), 1, Integer::sum);
    }

    /** One case per line. */
    static void write(Path file, String head, List<ObjectNode> lines) throws IOException {
        Files.createDirectories(file.getParent());
        StringBuilder text = new StringBuilder("{" + head + ":[");
        for (int i = 0; i < lines.size(); i++)
            text.append(i == 0 ? "\n" : ",\n").append(lines.get(i));
        Files.write(file, text.append("\n]}\n").toString().getBytes(StandardCharsets.UTF_8));
    }
}
