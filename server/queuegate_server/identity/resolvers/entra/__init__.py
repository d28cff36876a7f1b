"""Groups from Microsoft Entra ID, read from Microsoft Graph with an application's permissions."""
