package leafd.client.leaf;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.nio.file.Path;
import java.time.Duration;
import leafd.client.LeafdClient;
import leafd.client.LeafdOptions;
import org.junit.Test;

public class LeafdIDGenTest {
    @Test
    public void withoutADaemonEveryAnswerIsACodeOfLeafsAndNothingIsThrown() {
        LeafdOptions options = LeafdOptions.at(Path.of("/nowhere/at/all")).timeout(Duration.ofMillis(20));
        try (LeafdClient client = LeafdClient.create(options)) {
            LeafdIDGen ids = LeafdIDGen.segment(client);
            assertFalse(ids.init());
            assertEquals(-1, ids.get("orders").getId());
            assertEquals(Status.EXCEPTION, ids.get("orders").getStatus());
            Thread.currentThread().interrupt();
            assertFalse(ids.init());
            assertTrue(Thread.interrupted());
        }
    }
}
