import java.io.File;

/** `Busy GATE`: warms up, prints "ready", waits until a file GATE exists, yields 100 times (sched_yield(), an event to record) in innermost(), and prints "fired". */
public class Busy {
    static double innermost(int n) {
        double s = 0;
        for (int i = 0; i < n; i++) s += Math.sqrt(i) % 7;
        Thread.yield();
        return s;
    }

    public static void main(String[] a) throws InterruptedException {
        double s = 0;
        for (int i = 0; i < 20_000; i++) s += innermost(100);
        System.out.println("ready");
        while (!new File(a[0]).exists()) Thread.sleep(10);
        for (int i = 0; i < 100; i++) s += innermost(100);
        System.out.println(s > 0 ? "fired" : "");
        Thread.sleep(600_000);
    }
}
