package leafd.client;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertSame;
import static org.junit.Assert.assertTrue;

import java.util.List;
import java.util.Random;
import leafd.client.RefillPlan.Level;
import leafd.client.wire.Reply;
import org.junit.Test;

public class RefillPlanTest {
    private static final long MS = 1_000_000;
    private static final long S = 1000 * MS;

    private long now = 12_345;
    private Level level = new Level(0, 0, 0);
    private RefillPlan plan = plan(100, 1_000_000);

    private static RefillPlan plan(long min, long max) {
        return new RefillPlan(min, max, S, 5 * MS, 500 * MS);
    }

    private long lease() {
        long count = plan.due(now, level, true).lease();
        assertTrue(count > 0);
        plan.leased(now, level);
        level = new Level(level.left() + count, level.lent(), level.taken());
        return count;
    }

    private void use(long count, long nanos) {
        now += nanos;
        level = new Level(level.left() - count, level.lent(), level.taken() + count);
    }

    private static LeafdException refusal(int code, long retryAfterMs, long detail) {
        return new LeafdException.Refused(new Reply.Error(code, retryAfterMs, detail, "no"));
    }

    @Test
    public void chunksGrowEightFoldAtMostAndFollowTheRateOfASecond() {
        long[] sizes = {100, 800, 6_400, 51_200, 409_600, 1_000_000, 1_000_000};
        for (long size : sizes) {
            assertEquals(size, lease());
            use(size, MS);
        }
        // 1,000,000 IDs in 4 s are 250,000 a second; not less than half of the last chunk.
        now += 4 * S - MS;
        assertEquals(500_000, lease());
    }

    @Test
    public void nothingIsLeasedWhileMoreThanHalfIsLeft() {
        lease();
        use(49, MS);
        assertSame(RefillPlan.NOTHING, plan.due(now, level, true));
        use(1, MS);
        assertTrue(plan.due(now, level, true).lease() > 0);
    }

    @Test
    public void aQuotaBelowTheChunkIsLearnedAtOnceAndForgottenAfterAMinute() {
        plan = plan(250_000, 1_000_000);
        assertEquals(250_000, plan.due(now, level, true).lease());
        RefillPlan.Setback setback = plan.failed(now, refusal(200, 0, 5_000), 0);
        assertEquals(new RefillPlan.Setback(false, now), setback);
        assertEquals(5_000, plan.due(now, level, true).lease());
        now += RefillPlan.LIMIT_HOLDS;
        assertEquals(250_000, plan.due(now, level, true).lease());
    }

    @Test
    public void aLimitThatIsNoLowerIsAFailureLikeOthers() {
        plan.due(now, level, true);
        RefillPlan.Setback setback = plan.failed(now, refusal(200, 0, 100_000), 0);
        assertTrue(setback.isOutage() && setback.notBefore() > now);
    }

    @Test
    public void aLimitOfNothingIsNotTriedAgainAtOnceForEver() {
        plan.due(now, level, true);
        assertEquals(now, plan.failed(now, refusal(200, 0, 0), 0).notBefore());
        assertEquals(1, plan.due(now, level, true).lease());
        assertTrue(plan.failed(now, refusal(200, 0, 0), 0).notBefore() > now);
    }

    @Test
    public void aQuotaMakesChunksAQuarterOfItAndTheDaemonsPauseIsKept() {
        plan = plan(1_000, 1_000_000);
        plan.due(now, level, true);
        assertEquals(now + 700 * MS, plan.failed(now, refusal(312, 700, 2_000), 0).notBefore());
        assertEquals(new RefillPlan.Due(0, 700 * MS), plan.due(now, level, true));
        now += 700 * MS;
        assertEquals(500, plan.due(now, level, true).lease());
    }

    @Test
    public void pausesDoubleAndAnOutageIsReportedOnceAfterASecond() {
        long began = now;
        long[] pauses = {5, 10, 20, 40, 80, 160, 320, 500, 500, 500};
        for (int i = 0; i < pauses.length; i++) {
            assertTrue(plan.due(now, level, false).lease() > 0);
            RefillPlan.Setback setback = plan.failed(now, refusal(302, 0, 0), 0);
            assertEquals(i == 8, setback.isOutage());
            assertEquals(now + pauses[i] * MS, setback.notBefore());
            now += pauses[i] * MS;
        }
        assertEquals(now - began, plan.leased(now, level));
        assertEquals(0, plan.leased(now, level));
    }

    @Test
    public void anErrorThatDoesNotPassIsTriedAgainOnlyWhenSomebodyAsks() {
        plan.due(now, level, true);
        assertTrue(plan.failed(now, refusal(206, 0, 0), 0).isOutage());
        assertFalse(plan.failed(now, refusal(206, 0, 0), 0).isOutage());
        now += S;
        assertSame(RefillPlan.NOTHING, plan.due(now, level, false));
        assertTrue(plan.due(now, level, true).lease() > 0);
    }

    @Test
    public void neverMoreThanTwoOfTheLargestChunksAreHeld() {
        Random random = new Random(7);
        for (int round = 0; round < 200; round++) {
            long max = 1 + random.nextInt(1_000_000);
            long min = Math.min(max, 1 + random.nextInt(2_000));
            plan = plan(min, max);
            level = new Level(0, 0, 0);
            for (int step = 0; step < 100; step++) {
                use(Math.min(level.left(), random.nextInt(3_000_000)), random.nextInt(5_000) * MS);
                if (random.nextInt(4) == 0) {
                    int code = List.of(312, 200, 206).get(random.nextInt(3));
                    plan.failed(now, refusal(code, 0, random.nextInt()), 0);
                }
                long held = level.left();
                long count = plan.due(now, level, true).lease();
                if (count > 0) {
                    assertTrue(count <= max && held + count <= Math.max(2 * max, held + min));
                    plan.leased(now, level);
                    level = new Level(held + count, 0, level.taken());
                }
            }
        }
    }
}
