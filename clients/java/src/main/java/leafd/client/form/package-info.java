/**
 * Forms of an ID: texts of the number, numbers of a day, UUIDs and ObjectIDs. No socket and no clock.
 *
 * <p>Pure, reversible functions of the number, which leafd's page {@code docs/forms.md} defines bit by bit. Every ID
 * has exactly one text in each form, and no other text is read: an {@link java.lang.IllegalArgumentException} says
 * what is wrong with it. Only {@link leafd.client.form.TagHash} is a hash, which nothing turns back.
 *
 * <p>None of the forms hides the number: whoever sees two of them can count.
 */
package leafd.client.form;
