/**
 * The protocol: messages and their bytes. No socket and no clock.
 *
 * <p>Applications need only {@link leafd.client.wire.DaemonStatus}, {@link leafd.client.wire.ErrorCode} and
 * {@link leafd.client.wire.Run}. The rest is for tests and tools.
 */
package leafd.client.wire;
