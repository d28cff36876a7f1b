package io.queuegate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.File;
import java.io.IOException;
import java.io.StringWriter;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;
import org.junit.platform.launcher.listeners.SummaryGeneratingListener;

/** A fault that somebody could build into a class of this module. A test of the module must find it. */
public final class Planted {
  private static final Path SOURCES = Paths.get("src/main/java");

  private final String what;
  private final Path source;
  private final String line;
  private final String fault;
  private final Class<?>[] tests;

  private Planted(String what, Path source, String line, String fault, Class<?>[] tests) {
    this.what = what;
    this.source = source;
    this.line = line;
    this.fault = fault;
    this.tests = tests;
  }

  /**
   * Describes a fault.
   *
   * @param what what the faulty class does
   * @param source the name of the class, with slashes
   * @param line a text that its source contains once
   * @param fault what replaces the text
   * @param tests the classes of tests, one of which must fail
   */
  public static Planted in(String what, String source, String line, String fault, Class<?>... tests) {
    return new Planted(what, SOURCES.resolve(source + ".java"), line, fault, tests);
  }

  @Override
  public String toString() {
    return what;
  }

  /** Runs the tests with the faulty class, and returns the number of those that fail. */
  public long failures(Path folder) throws Exception {
    String text = new String(Files.readAllBytes(source), StandardCharsets.UTF_8);
    assertEquals(2, text.split(java.util.regex.Pattern.quote(line), -1).length, "occurs once: " + line);
    Path faulty = folder.resolve(source.getFileName());
    Files.write(faulty, text.replace(line, fault).getBytes(StandardCharsets.UTF_8));
    compile(faulty, folder);
    try (URLClassLoader loader = new Loader(folder)) {
      LauncherDiscoveryRequestBuilder request =
          LauncherDiscoveryRequestBuilder.request()
              // A fault may make a test wait.
              .configurationParameter("junit.jupiter.execution.timeout.default", "30 s");
      for (Class<?> each : tests) {
        request.selectors(selectClass(loader.loadClass(each.getName())));
      }
      return failures(request.build());
    }
  }

  private static long failures(LauncherDiscoveryRequest request) {
    SummaryGeneratingListener listener = new SummaryGeneratingListener();
    try {
      LauncherFactory.create().execute(request, listener);
    } catch (OutOfMemoryError thrown) { // by a test, which JUnit does not treat as its failure
      return 1;
    }
    return listener.getSummary().getTotalFailureCount();
  }

  private static void compile(Path source, Path folder) throws IOException {
    JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
    StringWriter faults = new StringWriter();
    try (StandardJavaFileManager files = compiler.getStandardFileManager(null, null, null)) {
      boolean isDone =
          compiler
              .getTask(
                  faults,
                  files,
                  null,
                  Arrays.asList("-nowarn", "-proc:none", "-d", folder.toString(), "-cp", classPath()),
                  null,
                  files.getJavaFileObjects(source.toFile()))
              .call();
      assertEquals(true, isDone, faults.toString());
    }
  }

  /** Returns the class path of the tests, which Surefire passes in a property of its own. */
  private static String classPath() {
    return System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
  }

  /** Loads the classes of this module again, those in a folder first. */
  private static final class Loader extends URLClassLoader {
    Loader(Path folder) throws MalformedURLException {
      super(urls(folder), Planted.class.getClassLoader());
    }

    private static URL[] urls(Path folder) throws MalformedURLException {
      List<URL> urls = new ArrayList<>(Collections.singletonList(folder.toUri().toURL()));
      for (String entry : classPath().split(File.pathSeparator)) {
        if (!entry.endsWith(".jar")) {
          urls.add(Paths.get(entry).toUri().toURL());
        }
      }
      return urls.toArray(new URL[0]);
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
      boolean isOurs = name.startsWith("io.queuegate.") && !name.startsWith("io.queuegate.v1.");
      if (!isOurs) {
        return super.loadClass(name, resolve);
      }
      synchronized (getClassLoadingLock(name)) {
        Class<?> known = findLoadedClass(name);
        try {
          return known == null ? findClass(name) : known;
        } catch (ClassNotFoundException inAJar) {
          return super.loadClass(name, resolve);
        }
      }
    }
  }
}
