/** Writes a line every 5 ms to a reader that waits for it. */
public class Talk {
    public static void main(String[] a) throws Exception {
        for (;;) {
            writeLine();
            Thread.sleep(5);
        }
    }
    static void writeLine() {
        System.out.println("x");
        System.out.flush();
    }
}
