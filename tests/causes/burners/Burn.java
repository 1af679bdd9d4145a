import com.sun.net.httpserver.HttpServer;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;

/** com.sun.net.httpserver: each request computes for 120 ms in a thread of a pool. */
public class Burn {
    static final ThreadMXBean threads = ManagementFactory.getThreadMXBean();

    static int burnItems(long ns) {
        long end = threads.getCurrentThreadCpuTime() + ns;
        int size = 0;
        while (threads.getCurrentThreadCpuTime() < end) {
            Map<String, Integer> map = new HashMap<>();
            for (int i = 0; i < 2000; i++)
                map.put("key " + i, i);
            size += map.size();
        }
        return size;
    }

    public static void main(String[] arguments) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 16);
        server.createContext("/", exchange -> {
            burnItems(120_000_000L);
            exchange.sendResponseHeaders(200, -1);
            exchange.close();
        });
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.start();
    }
}
