import java.io.File;
import java.util.concurrent.CountDownLatch;
import java.util.zip.Deflater;

/** Two threads, "hot" and "main", with deep stacks of methods that are all busy in innermost(), and one that is busy in a library of C: `Deep`.
 *
 * `Deep GATE`: the first two print their own stack, `account THREAD METHOD;METHOD`, outermost first, and warm up. After "ready" each waits until a file
 * GATE exists, calls innermost() 100 times, which yields (sched_yield(), an event to record), prints "fired" and sleeps. */
public class Deep {
    static final int FIRINGS = 100;
    static volatile String gate;
    static final CountDownLatch warm = new CountDownLatch(2);

    static double innermost(int n) {
        double s = 0;
        for (int i = 0; i < n; i++) s += Math.sqrt(i) % 7;
        if (gate != null) Thread.yield();
        if (n == 0) account();
        return s;
    }
    static double across(int depth, int n) { return depth == 0 ? innermost(n) : down(depth - 1, n) + 1; }
    static double down(int depth, int n) { return depth % 2 == 0 ? across(depth, n) + 1 : new Deep().virtually(depth, n) + 2; }
    double virtually(int depth, int n) { return down(depth - 1, n) + 3; }

    static void account() {
        StackTraceElement[] stack = Thread.currentThread().getStackTrace(); // from getStackTrace() and this method on
        StringBuilder line = new StringBuilder("account " + Thread.currentThread().getName() + " ");
        for (int i = stack.length; --i >= 2;) line.append(stack[i].getClassName()).append('.').append(stack[i].getMethodName()).append(i > 2 ? ";" : "");
        System.out.println(line);
    }

    static void passGate() {
        try {
            warm.countDown();
            warm.await();
            if (Thread.currentThread().getName().equals("main")) System.out.println("ready");
            while (!new File(gate).exists()) Thread.sleep(10);
        } catch (InterruptedException e) {
            throw new RuntimeException(e);
        }
    }
    static void endFired() {
        System.out.println("fired");
        try {
            Thread.sleep(600_000);
        } catch (InterruptedException e) {
            throw new RuntimeException(e);
        }
    }

    static double work(int depth) {
        double s = 0;
        if (gate == null) while (s >= 0) s += down(depth, 500);
        s += down(depth, 0);
        for (int i = 0; i < 20_000; i++) s += down(depth, 50);
        passGate();
        for (int i = 0; i < FIRINGS; i++) s += down(depth, 50);
        endFired();
        return s;
    }

    static class Hot implements Runnable {
        public void run() { work(9); }
    }
    static class Native implements Runnable { // through JNI into a library of C
        public void run() { byte[] from = new byte[65536], to = new byte[65536]; while (deflate(from, to) >= 0) from[0]++; }
        static int deflate(byte[] from, byte[] to) { Deflater d = new Deflater(); d.setInput(from); d.finish(); int n = d.deflate(to); d.end(); return n; }
    }

    public static void main(String[] a) {
        gate = a.length > 0 ? a[0] : null;
        new Thread(new Hot(), "hot").start();
        if (gate == null) {
            new Thread(new Native(), "native").start();
            System.out.println("ready");
        }
        work(5);
    }
}
