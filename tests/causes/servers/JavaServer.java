// Java's own com.sun.net.httpserver with a fixed pool of threads. PORT LOG FOLDER
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.FileOutputStream;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadLocalRandom;
import java.util.stream.IntStream;
import com.sun.nio.file.ExtendedOpenOption;

class JavaServer {
    static final int WORKERS = 4, BLOCK = 65536, POLL_MS = 2;
    static final long MS = 1_000_000, NOTHING_NS = 200_000; // a remainder below this is the cost of measuring
    static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    static final Object monitor = new Object(), decoy = new Object();
    static volatile boolean contending;
    static String folder;

    static long now() { return System.nanoTime(); } // CLOCK_MONOTONIC

    // ---- ground truth ----

    static String item(String cause, long t0, long t1, long ns, String more) {
        return String.format("{\"cause\": \"%s\", \"tid\": %d, \"t0\": %d, \"t1\": %d, \"ns\": %d%s}", cause, tid(), t0, t1, ns, more);
    }

    static final ThreadLocal<Integer> tids = ThreadLocal.withInitial(() -> {
        try {
            return Integer.parseInt(Path.of("/proc/thread-self").toRealPath().getFileName().toString());
        } catch (Exception e) {
            throw new RuntimeException(e);
        }
    });

    static int tid() { return tids.get(); }

    static long delay() throws Exception {
        return Long.parseLong(Files.readString(Path.of("/proc/self/task/" + tid() + "/schedstat")).split(" ")[1]);
    }

    interface Work { void run() throws Exception; }

    // Divides the time of the work into CPU, run queue and the rest.
    static List<String> account(String rest, String runQueue, String more, Work work) throws Exception {
        long delay = delay(), cpu = THREADS.getCurrentThreadCpuTime(), t0 = now();
        work.run();
        long t1 = now();
        cpu = THREADS.getCurrentThreadCpuTime() - cpu;
        delay = delay() - delay;
        List<String> truth = new ArrayList<>();
        if (cpu > NOTHING_NS) truth.add(item("cpu", t0, t1, cpu, ""));
        if (delay > NOTHING_NS) truth.add(item(runQueue, t0, t1, delay, ""));
        if (!rest.isEmpty() && t1 - t0 - cpu - delay > NOTHING_NS) truth.add(item(rest, t0, t1, t1 - t0 - cpu - delay, more));
        return truth;
    }

    // ---- causes ----

    static void spin(double ms) {
        for (long ends = THREADS.getCurrentThreadCpuTime() + (long)(ms * MS); THREADS.getCurrentThreadCpuTime() < ends; ) { }
    }

    static class Job {
        final double ms;
        final boolean spins;
        volatile int holder;
        Job(double ms, boolean spins) { this.ms = ms; this.spins = spins; }
    }

    static final ConcurrentLinkedQueue<Job> jobs = new ConcurrentLinkedQueue<>();

    // Looks for jobs by itself: a thread that a request wakes works for that request.
    static void hold() {
        try {
            for (Job job; ; Thread.sleep(POLL_MS))
                if ((job = jobs.poll()) != null)
                    synchronized (monitor) {
                        job.holder = tid();
                        if (job.spins) for (long ends = now() + (long)(job.ms * MS); now() < ends; ) { }
                        else Thread.sleep((long)job.ms);
                    }
        } catch (InterruptedException e) { }
    }

    static List<String> lock(double ms, boolean spins) throws Exception {
        Job job = new Job(ms, spins);
        jobs.add(job);
        long t0 = now();
        while (job.holder == 0) Thread.sleep(POLL_MS);
        long t1 = now();
        List<String> truth = account("lock", "run_queue", ", \"holders\": [" + job.holder + "]", () -> { synchronized (monitor) { } });
        truth.add(item("sleep", t0, t1, t1 - t0, ""));
        return truth;
    }

    static void readDirect(double ms) throws Exception {
        try (FileChannel file = FileChannel.open(Path.of(folder, "direct"), StandardOpenOption.READ, ExtendedOpenOption.DIRECT)) {
            ByteBuffer block = ByteBuffer.allocateDirect(BLOCK + 4096).alignedSlice(4096);
            for (long ends = now() + (long)(ms * MS), blocks = file.size() / BLOCK; now() < ends; ) {
                block.clear().limit(BLOCK);
                file.read(block, ThreadLocalRandom.current().nextLong(blocks) * BLOCK);
            }
        }
    }

    static void call(double ms, String service) throws Exception {
        try (Socket socket = new Socket("127.0.0.1", Integer.parseInt(service))) {
            socket.getOutputStream().write(("GET /slow?ms=" + ms + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").getBytes());
            InputStream reply = socket.getInputStream();
            while (reply.read(new byte[4096]) >= 0) { }
        }
    }

    static final class Live { static final Integer[][] objects = IntStream.range(0, 3_000_000).mapToObj(i -> new Integer[]{i}).toArray(Integer[][]::new); }

    static List<String> collect(double ms) throws Exception {
        if (Live.objects.length == 0 || ms == 0) return List.of();
        return account("gc", "run_queue", "", System::gc);
    }

    static List<String> decoyLock(boolean on) {
        contending = on;
        for (int i = 0; on && i < 3; i++) {
            Thread thread = new Thread(() -> {
                while (contending) synchronized (decoy) {
                    try { Thread.sleep(20); } catch (InterruptedException e) { }
                }
            });
            thread.setDaemon(true);
            thread.start();
        }
        return List.of();
    }

    static List<String> work(String route, double ms, Map<String, String> q) throws Exception {
        switch (route) {
            case "cpu": return account("", "run_queue", "", () -> spin(ms));
            case "quota": return account("quota", "quota", "", () -> spin(ms));
            case "sleep": {
                long t0 = now();
                Thread.sleep((long)ms);
                long t1 = Math.min(now(), t0 + (long)(ms * MS));
                return List.of(item("sleep", t0, t1, t1 - t0, ""));
            }
            case "gc": return collect(ms);
            case "lock": return lock(ms, false);
            case "lock_spin": return lock(ms, true);
            case "disk": return account("disk", "run_queue", "", () -> readDirect(ms));
            case "downstream": return account("downstream", "run_queue", "", () -> call(ms, q.get("service")));
            case "cpu_downstream": {
                List<String> truth = new ArrayList<>(work("cpu", ms, q));
                truth.addAll(work("downstream", 1.2 * ms, q));
                return truth;
            }
            case "decoy_lock": return decoyLock(q.get("on").equals("1"));
            default: return List.of();
        }
    }

    static Map<String, String> parse(String query) {
        Map<String, String> q = new HashMap<>();
        for (String pair : (query == null ? "" : query).split("&"))
            if (pair.contains("=")) q.put(pair.substring(0, pair.indexOf('=')), pair.substring(pair.indexOf('=') + 1));
        return q;
    }

    static void serve(HttpExchange exchange, FileOutputStream log) {
        try {
            long t0 = now();
            Map<String, String> q = parse(exchange.getRequestURI().getQuery());
            String route = exchange.getRequestURI().getPath().split("/")[1];
            List<String> truth = work(route, Double.parseDouble(q.getOrDefault("ms", "0")), q);
            long t1 = now();
            exchange.sendResponseHeaders(200, 2);
            try (OutputStream body = exchange.getResponseBody()) {
                body.write("ok".getBytes());
            }
            log.write(String.format("{\"id\": %s, \"route\": \"%s\", \"tid\": %d, \"t0\": %d, \"t1\": %d, \"truth\": [%s], \"occupied_thread\": true}\n",
                                    q.getOrDefault("id", "-1"), route, tid(), t0, t1, String.join(", ", truth)).getBytes());
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    public static void main(String[] arguments) throws Exception {
        folder = arguments[2];
        FileOutputStream log = new FileOutputStream(arguments[1], true);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 1024);
        server.createContext("/", exchange -> serve(exchange, log));
        server.setExecutor(Executors.newFixedThreadPool(WORKERS));
        Thread holder = new Thread(JavaServer::hold, "holder");
        holder.setDaemon(true);
        holder.start();
        server.start();
    }
}
