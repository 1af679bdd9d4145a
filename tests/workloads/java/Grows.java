/* Grows without an end, by a mebibyte every 20 ms. */
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

public class Grows {
    private static final List<byte[]> kept = new ArrayList<>();

    private static void loadRows() {
        byte[] rows = new byte[1 << 20];
        Arrays.fill(rows, (byte) 1);
        kept.add(rows);
    }

    public static void main(String[] arguments) throws InterruptedException {
        while (true) {
            loadRows();
            Thread.sleep(20);
        }
    }
}
