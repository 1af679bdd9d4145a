/** Writes a line every 5 ms to a reader that waits for it. */
public class Talk {
    public static void main(String[] a) throws Exception {
        for (;;) {
            tell();
            Thread.sleep(5);
        }
    }
    static void tell() {
        System.out.println("x");
        System.out.flush();
    }
}
