/**
 * For code written for Meituan's Leaf: the same {@code IDGen} interface, answered by leafd.
 */
package leafd.client.leaf;
