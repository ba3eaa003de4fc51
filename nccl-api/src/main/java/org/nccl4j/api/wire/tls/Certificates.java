package org.nccl4j.api.wire.tls;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.Charset;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.InvalidKeyException;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.NoSuchAlgorithmException;
import java.security.PrivateKey;
import java.security.SecureRandom;
import java.security.Signature;
import java.security.SignatureException;
import java.security.cert.CertPathValidator;
import java.security.cert.CertPathValidatorException;
import java.security.cert.CertificateFactory;
import java.security.cert.PKIXParameters;
import java.security.cert.X509Certificate;
import java.security.spec.InvalidKeySpecException;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/** Reads certificates and key from PEM files, and reports errors in them. */
final class Certificates {
  private static final Pattern PEM =
      Pattern.compile("-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \\1-----", Pattern.DOTALL);
  private static final List<String> KEY_KINDS = List.of("EC", "RSA", "EdDSA");
  private static final char[] NO_PASSWORD = {};

  /** PEM is ASCII; the lines around it, such as an authority's name, may be in any encoding. */
  private static final Charset ANY_BYTES = StandardCharsets.ISO_8859_1;

  private static final System.Logger LOG = DebugLog.of("BOOTSTRAP");

  private final TlsFiles files;

  Certificates(TlsFiles files) {
    this.files = files;
  }

  SSLContext context() {
    List<X509Certificate> own = own(certificates("NCCL4J_TLS_CERT", files.certificate()));
    List<X509Certificate> trusted = trusted(certificates("NCCL4J_TLS_CA", files.authorities()));
    PrivateKey key = key(read("NCCL4J_TLS_KEY", files.key()));
    try {
      checkPair(own.get(0), key);
      KeyStore authorities = store();
      for (int a = 0; a < trusted.size(); a++) {
        authorities.setCertificateEntry("authority-" + a, trusted.get(a));
      }
      checkPath(own, authorities);
      KeyStore identity = store();
      identity.setKeyEntry("rank", key, NO_PASSWORD, own.toArray(X509Certificate[]::new));
      KeyManagerFactory keys = KeyManagerFactory.getInstance("PKIX");
      keys.init(identity, NO_PASSWORD);
      TrustManagerFactory trusts = TrustManagerFactory.getInstance("PKIX");
      trusts.init(authorities);
      SSLContext context = SSLContext.getInstance("TLSv1.3");
      context.init(keys.getKeyManagers(), trusts.getTrustManagers(), null);
      return context;
    } catch (GeneralSecurityException | IOException e) {
      throw wrong("NCCL4J_TLS_CERT", files.certificate(), String.valueOf(e.getMessage()), e);
    }
  }

  private static KeyStore store() throws GeneralSecurityException, IOException {
    KeyStore store = KeyStore.getInstance("PKCS12");
    store.load(null, NO_PASSWORD);
    return store;
  }

  private static String read(String setting, String file) {
    try {
      return Files.readString(Path.of(file), ANY_BYTES);
    } catch (IOException | InvalidPathException e) {
      throw wrong(setting, file, "it cannot be read (" + e + ")", e);
    }
  }

  private static List<X509Certificate> certificates(String setting, String file) {
    try {
      List<X509Certificate> all =
          CertificateFactory.getInstance("X.509")
              .generateCertificates(
                  new ByteArrayInputStream(read(setting, file).getBytes(ANY_BYTES)))
              .stream()
              .map(X509Certificate.class::cast)
              .toList();
      if (all.isEmpty()) {
        throw wrong(setting, file, "there is no certificate in it", null);
      }
      return all;
    } catch (GeneralSecurityException e) {
      throw wrong(setting, file, String.valueOf(e.getMessage()), e);
    }
  }

  private List<X509Certificate> own(List<X509Certificate> all) {
    try {
      for (X509Certificate each : all) {
        each.checkValidity();
      }
      return all;
    } catch (GeneralSecurityException e) {
      throw wrong("NCCL4J_TLS_CERT", files.certificate(), String.valueOf(e.getMessage()), e);
    }
  }

  /** Leaves out authorities that are not valid now: a bundle of many often has an expired one. */
  private List<X509Certificate> trusted(List<X509Certificate> all) {
    List<X509Certificate> valid = new ArrayList<>();
    GeneralSecurityException first = null;
    for (X509Certificate each : all) {
      try {
        each.checkValidity();
        valid.add(each);
      } catch (GeneralSecurityException e) {
        first = first == null ? e : first;
        LOG.log(
            System.Logger.Level.WARNING,
            "NCCL4J_TLS_CA={0}: authority {1} is not valid now ({2}), so it is left out; remove it"
                + " from the file",
            files.authorities(),
            each.getSubjectX500Principal(),
            e.getMessage());
      }
    }
    if (valid.isEmpty()) {
      throw wrong("NCCL4J_TLS_CA", files.authorities(), String.valueOf(first.getMessage()), first);
    }
    return valid;
  }

  private PrivateKey key(String text) {
    Matcher pem = PEM.matcher(text);
    String found = "nothing";
    while (pem.find()) {
      found = pem.group(1);
      if (found.equals("PRIVATE KEY")) {
        return decoded(pem.group(2).replaceAll("\\s", ""));
      }
    }
    throw new InvalidArgumentException(
        ErrorId.CERTIFICATE,
        "NCCL4J_TLS_KEY=%s cannot be used: it has %s where a PRIVATE KEY is needed"
            .formatted(files.key(), found),
        "write the key without a password in PKCS #8: openssl pkcs8 -topk8 -nocrypt -in %s -out"
                .formatted(files.key())
            + " key8.pem");
  }

  private PrivateKey decoded(String base64) {
    byte[] bytes;
    try {
      bytes = Base64.getDecoder().decode(base64);
    } catch (IllegalArgumentException e) {
      throw wrong("NCCL4J_TLS_KEY", files.key(), "its base64 is broken", e);
    }
    NoSuchAlgorithmException missing = null;
    for (String kind : KEY_KINDS) {
      try {
        return KeyFactory.getInstance(kind).generatePrivate(new PKCS8EncodedKeySpec(bytes));
      } catch (NoSuchAlgorithmException e) {
        missing = e;
      } catch (InvalidKeySpecException e) {
        LOG.log(System.Logger.Level.TRACE, "no key of kind " + kind, e);
      }
    }
    if (missing != null) {
      throw new InvalidArgumentException(
          ErrorId.CERTIFICATE,
          "NCCL4J_TLS_KEY=%s cannot be used: in this Java runtime, %s"
              .formatted(files.key(), missing.getMessage()),
          "add the module jdk.crypto.ec to the runtime (jlink --add-modules), or use a whole JDK",
          missing);
    }
    throw wrong("NCCL4J_TLS_KEY", files.key(), "its key is not one of " + KEY_KINDS, null);
  }

  private void checkPair(X509Certificate certificate, PrivateKey key)
      throws GeneralSecurityException {
    String algorithm =
        switch (key.getAlgorithm()) {
          case "RSA" -> "SHA256withRSA";
          case "EC" -> "SHA256withECDSA";
          default -> key.getAlgorithm();
        };
    byte[] something = new byte[16];
    new SecureRandom().nextBytes(something);
    boolean fits;
    try {
      Signature signature = Signature.getInstance(algorithm);
      signature.initSign(key);
      signature.update(something);
      byte[] signed = signature.sign();
      signature.initVerify(certificate.getPublicKey());
      signature.update(something);
      fits = signature.verify(signed);
    } catch (InvalidKeyException | SignatureException e) {
      fits = false;
    }
    if (!fits) {
      throw new InvalidArgumentException(
          ErrorId.CERTIFICATE,
          "NCCL4J_TLS_KEY=%s is not the key of the first certificate in NCCL4J_TLS_CERT=%s"
              .formatted(files.key(), files.certificate()),
          "name the key that belongs to it, and put this rank's certificate first");
    }
  }

  private void checkPath(List<X509Certificate> own, KeyStore authorities)
      throws GeneralSecurityException {
    PKIXParameters rules = new PKIXParameters(authorities);
    rules.setRevocationEnabled(false);
    try {
      CertPathValidator.getInstance("PKIX")
          .validate(CertificateFactory.getInstance("X.509").generateCertPath(own), rules);
    } catch (CertPathValidatorException e) {
      throw new InvalidArgumentException(
          ErrorId.CERTIFICATE,
          ("the certificate in NCCL4J_TLS_CERT=%s is not signed by an authority in"
                  + " NCCL4J_TLS_CA=%s (%s)")
              .formatted(files.certificate(), files.authorities(), e.getMessage()),
          "add its authority's certificate to NCCL4J_TLS_CA, and intermediate certificates to"
              + " NCCL4J_TLS_CERT",
          e);
    }
  }

  private static InvalidArgumentException wrong(
      String setting, String file, String why, Exception cause) {
    return new InvalidArgumentException(
        ErrorId.CERTIFICATE,
        "%s=%s cannot be used: %s".formatted(setting, file, why),
        "name a PEM file that is readable and valid now, or unset NCCL4J_TLS_CERT, NCCL4J_TLS_KEY"
            + " and NCCL4J_TLS_CA on all ranks",
        cause);
  }
}
