import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import kafka.tools.StorageTool;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;

/**
 * A KRaft cluster in one process. Each argument is the properties file of a node; the first node is the controller too.
 * Nodes without data are formatted. Ends on SIGTERM, or with status 1 when a node does not start.
 */
public class Cluster {
    private static final String CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ";

    public static void main(String[] files) throws Exception {
        List<KafkaRaftServer> nodes = new ArrayList<>();
        for (String file : files) {
            KafkaConfig config = KafkaConfig.fromProps(Utils.loadProps(file));
            format(file, config, nodes.isEmpty());
            nodes.add(new KafkaRaftServer(config, Time.SYSTEM));
        }
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            for (int i = nodes.size() - 1; i >= 0; i--) { // the controller last: the others sign off from it
                nodes.get(i).shutdown();
            }
        }));
        // Each start waits for the controller, so they have to go on at the same time.
        for (KafkaRaftServer node : nodes) {
            new Thread(() -> {
                try {
                    node.startup();
                } catch (Throwable failure) {
                    failure.printStackTrace();
                    Runtime.getRuntime().halt(1);
                }
            }).start();
        }
    }

    private static void format(String file, KafkaConfig config, boolean controller) {
        if (Files.exists(Path.of(config.logDirs().get(0), "meta.properties"))) {
            return;
        }
        String quorum = controller ? "--standalone" : "--no-initial-controllers";
        String[] arguments = {"format", "--cluster-id", CLUSTER_ID, "--config", file, quorum};
        if (StorageTool.execute(arguments, System.out) != 0) {
            System.exit(1);
        }
    }
}
