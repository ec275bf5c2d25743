/**
 * The client and the pool.
 *
 * <p>Start with {@link leafd.client.LeafdClient}. Every failure is a {@link leafd.client.LeafdException}.
 */
package leafd.client;
