/**
 * How ranks find each other and talk before there are transports: TCP connections that prove
 * knowledge of the unique id's secret, with deadlines and bounded reads. Layer: engine, beside the
 * transport SPI; knows no device.
 */
package org.nccl4j.api.bootstrap;
