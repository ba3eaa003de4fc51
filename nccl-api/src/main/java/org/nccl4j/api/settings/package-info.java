/**
 * What a user can set without changing the program: each setting declared once, with its type,
 * default, range and a sentence, and the one place that reads them. Layer: below everything else in
 * this module; knows nothing of it.
 */
package org.nccl4j.api.settings;
