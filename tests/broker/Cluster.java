import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import kafka.tools.StorageTool;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.common.ShareVersion;

/**
 * Nodes of a KRaft cluster in one process, all of them or some. Each argument is the properties file of a node. Nodes
 * without data are formatted. Ends with status 1 when a node does not start.
 */
public class Cluster {
    private static final String CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ";

    public static void main(String[] files) throws Exception {
        List<KafkaRaftServer> nodes = new ArrayList<>();
        for (String file : files) {
            Properties properties = Utils.loadProps(file);
            KafkaConfig config = KafkaConfig.fromProps(properties);
            format(file, config, properties.getProperty("process.roles").contains("controller"));
            nodes.add(new KafkaRaftServer(config, Time.SYSTEM));
        }
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
        // Kafka 4.1 has share groups only when it is told so.
        String shareGroups = "share.version=" + ShareVersion.LATEST_PRODUCTION.featureLevel();
        String[] arguments = {
            "format", "--cluster-id", CLUSTER_ID, "--config", file, quorum, "--feature", shareGroups};
        if (StorageTool.execute(arguments, System.out) != 0) {
            System.exit(1);
        }
    }
}
