import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.URL;
import java.net.URLConnection;
import java.nio.charset.StandardCharsets;
import java.security.PrivilegedExceptionAction;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.ha.HAServiceProtocol;
import org.apache.hadoop.ha.HAServiceProtocol.StateChangeRequestInfo;
import org.apache.hadoop.ha.HAServiceProtocolHelper;
import org.apache.hadoop.security.UserGroupInformation;
import org.apache.hadoop.yarn.api.ApplicationClientProtocol;
import org.apache.hadoop.yarn.api.protocolrecords.GetApplicationReportRequest;
import org.apache.hadoop.yarn.api.protocolrecords.GetApplicationsRequest;
import org.apache.hadoop.yarn.api.protocolrecords.GetNewApplicationRequest;
import org.apache.hadoop.yarn.api.protocolrecords.GetQueueUserAclsInfoRequest;
import org.apache.hadoop.yarn.api.protocolrecords.KillApplicationRequest;
import org.apache.hadoop.yarn.api.protocolrecords.MoveApplicationAcrossQueuesRequest;
import org.apache.hadoop.yarn.api.protocolrecords.SubmitApplicationRequest;
import org.apache.hadoop.yarn.api.records.ApplicationId;
import org.apache.hadoop.yarn.api.records.ApplicationReport;
import org.apache.hadoop.yarn.api.records.ApplicationSubmissionContext;
import org.apache.hadoop.yarn.api.records.ContainerLaunchContext;
import org.apache.hadoop.yarn.api.records.Priority;
import org.apache.hadoop.yarn.api.records.QueueUserACLInfo;
import org.apache.hadoop.yarn.api.records.Resource;
import org.apache.hadoop.yarn.api.records.YarnApplicationState;
import org.apache.hadoop.yarn.client.ClientRMProxy;
import org.apache.hadoop.yarn.client.RMHAServiceTarget;
import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.api.ResourceManagerAdministrationProtocol;
import org.apache.hadoop.yarn.server.api.protocolrecords.RefreshQueuesRequest;
import org.apache.hadoop.yarn.server.resourcemanager.ResourceManager;

/** Users of the ResourceManager, each with a connection of its own. */
final class Users {
  private final ResourceManager manager;
  private final Configuration configuration;
  private final Map<String, Caller> callers = new HashMap<>();

  Users(ResourceManager manager) {
    this.manager = manager;
    this.configuration = manager.getConfig();
  }

  ResourceManager manager() {
    return manager;
  }

  Caller caller(String user, String realUser) {
    return callers.computeIfAbsent(user + " " + realUser, name -> new Caller(user, realUser));
  }

  /** A user, perhaps behind a service that acts for the user. */
  final class Caller {
    private final UserGroupInformation identity;
    private ApplicationClientProtocol client;

    Caller(String user, String realUser) {
      UserGroupInformation direct =
          UserGroupInformation.createRemoteUser(realUser.isEmpty() ? user : realUser);
      identity = realUser.isEmpty() ? direct : UserGroupInformation.createProxyUser(user, direct);
    }

    UserGroupInformation identity() {
      return identity;
    }

    String submit(String queue) throws Exception {
      return as(client -> {
        ApplicationId id =
            client.getNewApplication(GetNewApplicationRequest.newInstance()).getApplicationId();
        ContainerLaunchContext container =
            ContainerLaunchContext.newInstance(
                Collections.emptyMap(), Collections.emptyMap(), Collections.singletonList("true"),
                Collections.emptyMap(), null, Collections.emptyMap());
        client.submitApplication(
            SubmitApplicationRequest.newInstance(
                ApplicationSubmissionContext.newInstance(
                    id, "test", queue, Priority.newInstance(0), container, false, true, 1,
                    Resource.newInstance(64, 1))));
        return id.toString();
      });
    }

    /** Opens the connection, and waits for an answer to a question that concerns no queue. */
    void connect() throws Exception {
      as(client -> client.getNewApplication(GetNewApplicationRequest.newInstance()));
    }

    /** Waits until an application has a state. */
    void await(String application, String expected) throws Exception {
      YarnApplicationState state = report(application).getYarnApplicationState();
      while (!state.toString().equals(expected)) {
        if (state == YarnApplicationState.FAILED) {
          throw new IllegalStateException(report(application).getDiagnostics());
        }
        Thread.sleep(1);
        state = report(application).getYarnApplicationState();
      }
    }

    private ApplicationReport report(String application) throws Exception {
      return as(client -> client.getApplicationReport(
          GetApplicationReportRequest.newInstance(ApplicationId.fromString(application)))
          .getApplicationReport());
    }

    void state(String application, ObjectNode answer) throws Exception {
      ApplicationReport report = report(application);
      answer.put("state", report.getYarnApplicationState().toString());
      answer.put("queue", report.getQueue());
      answer.put("diagnostics", report.getDiagnostics());
    }

    void kill(String application) throws Exception {
      ApplicationId id = ApplicationId.fromString(application);
      as(client -> {
        while (!client.forceKillApplication(KillApplicationRequest.newInstance(id))
            .getIsKillCompleted()) {
          Thread.sleep(50);
        }
        return null;
      });
    }

    void move(String application, String queue) throws Exception {
      ApplicationId id = ApplicationId.fromString(application);
      as(client -> client.moveApplicationAcrossQueues(
          MoveApplicationAcrossQueuesRequest.newInstance(id, queue)));
    }

    void usable(ObjectNode queues) throws Exception {
      for (QueueUserACLInfo queue :
          as(client -> client.getQueueUserAcls(GetQueueUserAclsInfoRequest.newInstance()))
              .getUserAclsInfoList()) {
        ArrayNode acls = queues.putArray(queue.getQueueName());
        queue.getUserAcls().forEach(acl -> acls.add(acl.toString()));
      }
    }

    int applications() throws Exception {
      return as(client -> client.getApplications(GetApplicationsRequest.newInstance()))
          .getApplicationList().size();
    }

    /** Asks over HTTP, as an administrator of the queue, whether the user may use it. */
    boolean access(String queue, String acl, String administrator) throws Exception {
      InetSocketAddress address =
          configuration.getSocketAddr(
              YarnConfiguration.RM_WEBAPP_ADDRESS, YarnConfiguration.DEFAULT_RM_WEBAPP_ADDRESS,
              YarnConfiguration.DEFAULT_RM_WEBAPP_PORT);
      String user = identity.getShortUserName();
      URL url =
          new URL("http", "127.0.0.1", address.getPort(), "/ws/v1/cluster/queues/" + queue
              + "/access?user=" + user + "&queue-acl-type=" + acl + "&user.name=" + administrator);
      URLConnection connection = url.openConnection();
      connection.setRequestProperty("Accept", "application/xml"); // 3.5.0 fails to write JSON here
      try (InputStream answer = connection.getInputStream()) {
        String text = new String(answer.readAllBytes(), StandardCharsets.UTF_8);
        if (!text.contains("<allowed>")) {
          throw new IllegalStateException(text);
        }
        return text.contains("<allowed>true</allowed>");
      }
    }

    void refreshQueues() throws Exception {
      identity.doAs((PrivilegedExceptionAction<Object>) () ->
          ClientRMProxy.createRMProxy(configuration, ResourceManagerAdministrationProtocol.class)
              .refreshQueues(RefreshQueuesRequest.newInstance()));
    }

    /** Makes this ResourceManager active or standby, as `yarn rmadmin` does by force. */
    void transition(String to) throws Exception {
      StateChangeRequestInfo forced =
          new StateChangeRequestInfo(HAServiceProtocol.RequestSource.REQUEST_BY_USER_FORCED);
      identity.doAs((PrivilegedExceptionAction<Object>) () -> {
        HAServiceProtocol service =
            new RMHAServiceTarget(new YarnConfiguration(configuration)).getProxy(configuration, 60_000);
        if (to.equals("active")) {
          HAServiceProtocolHelper.transitionToActive(service, forced);
        } else {
          HAServiceProtocolHelper.transitionToStandby(service, forced);
        }
        return null;
      });
    }

    private <T> T as(Action<T> action) throws Exception {
      return identity.doAs((PrivilegedExceptionAction<T>) () -> {
        if (client == null) {
          client = ClientRMProxy.createRMProxy(configuration, ApplicationClientProtocol.class);
        }
        return action.run(client);
      });
    }
  }

  private interface Action<T> {
    T run(ApplicationClientProtocol client) throws Exception;
  }
}
