/**
 * The settings: each is declared once, with its type, default, range and a sentence, and read in
 * one place. Layer: below everything else in this module; knows nothing of it.
 */
package org.nccl4j.api.settings;
